// A client of CRI as the kubelet is one: with Kubernetes' own messages, and with gRPC for Go.
//
//	cri-client unix:///run/containerd/containerd.sock
//
// It reads calls from standard input, a line of JSON for each, as {"call": "StopContainer", "request": {"container_id":
// "c1"}, "seconds": 10}, and prints a line {"call", "code", "detail", "reply"} when it has been answered, one call after
// the other.  GetContainerEvents goes on meanwhile: each event is a line, and its end is one.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const largest = 16 << 20 // bytes of a message, as the kubelet takes them

type asked struct {
	Call    string          `json:"call"`
	Request json.RawMessage `json:"request"`
	Seconds float64         `json:"seconds"`
}

type answered struct {
	Call   string `json:"call"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Reply  any    `json:"reply,omitempty"`
}

var (
	printing sync.Mutex
	printed  = json.NewEncoder(os.Stdout)
)

func tell(call string, reply any, err error) {
	printing.Lock()
	defer printing.Unlock()
	found := answered{Call: call, Code: status.Code(err).String(), Detail: status.Convert(err).Message()}
	if err == nil {
		found.Reply = reply
	}
	if err := printed.Encode(found); err != nil {
		os.Exit(1) // nobody reads any more
	}
}

func watch(service cri.RuntimeServiceClient) {
	stream, err := service.GetContainerEvents(context.Background(), &cri.GetEventsRequest{})
	for err == nil {
		var event *cri.ContainerEventResponse
		if event, err = stream.Recv(); err == nil {
			tell("GetContainerEvents", event, nil)
		}
	}
	tell("GetContainerEvents", nil, err)
}

func do(services []reflect.Value, next asked) error {
	var method reflect.Value
	for _, each := range services {
		if !method.IsValid() {
			method = each.MethodByName(next.Call)
		}
	}
	if !method.IsValid() {
		return fmt.Errorf("CRI has no method %q", next.Call)
	}
	request := reflect.New(method.Type().In(1).Elem())
	if next.Request != nil {
		if err := json.Unmarshal(next.Request, request.Interface()); err != nil {
			return err
		}
	}
	within, cancel := context.WithTimeout(context.Background(), time.Duration(next.Seconds*float64(time.Second)))
	defer cancel()
	found := method.Call([]reflect.Value{reflect.ValueOf(within), request})
	err, _ := found[1].Interface().(error)
	tell(next.Call, found[0].Interface(), err)
	return nil
}

func run(address string) error {
	connection, err := grpc.NewClient(
		address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largest)),
	)
	if err != nil {
		return err
	}
	service := cri.NewRuntimeServiceClient(connection)
	services := []reflect.Value{reflect.ValueOf(service), reflect.ValueOf(cri.NewImageServiceClient(connection))}
	for lines := json.NewDecoder(os.Stdin); ; {
		next := asked{Seconds: 10}
		if err := lines.Decode(&next); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if next.Call == "GetContainerEvents" {
			go watch(service)
		} else if err := do(services, next); err != nil {
			return err
		}
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: cri-client ADDRESS, as unix:///PATH; calls come on standard input")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
