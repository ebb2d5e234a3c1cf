// A CRI client that works like the kubelet: it uses Kubernetes' own messages, and gRPC for Go.
//
//	cri-client unix:///run/containerd/containerd.sock
//
// It reads calls from standard input; each call is a line of JSON such as {"call": "StopContainer", "request":
// {"container_id": "c1"}, "seconds": 10}.  It makes one call after the other, and prints each answer as a line with
// the keys "call", "code", "detail" and "reply".  GetContainerEvents runs at the same time as other calls; each event
// is a line, and so is the end of the events.
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

const largest = 16 << 20 // maximum bytes of a message, the same as the kubelet's

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
		os.Exit(1) // nobody reads the output
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
