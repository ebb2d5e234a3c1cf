#!/bin/sh
# A pod of containerd's NRI layer in POSIX shell. It implements the machine nri-pod and speaks the protocol of
# docs/reference/exec-protocol.md.
# Usage: nri_pod.sh [forgets-stops | relays-twice | deaf]
wrong=${1:-}

state=absent world=ok
printf '{"fsm":1,"can":["outputs","arrange"]}\n'

# Print the string after the key $1 in the request.
word() {
    word=${line#*"\"$1\":\""}
    word=${word%%'"'*}
}

# Send $1 to the plugins, which answer as $world says.
relay() {
    outputs=\"$1\"
    [ "$wrong" != relays-twice ] || [ "$1" != RemovePodSandbox ] || outputs="$outputs,$outputs"
    [ "$world" != error ] || reply=UNKNOWN
}

do_event() {
    reply=ok
    case $1 in
    run-pod-sandbox) relay RunPodSandbox && state=running ;;
    stop-pod-sandbox)
        [ "$state" = running ] || return 0
        relay StopPodSandbox
        [ "$wrong" = forgets-stops ] || state=stopped
        ;;
    remove-pod-sandbox)
        [ "$state" != absent ] || return 0
        relay RemovePodSandbox
        state=absent
        ;;
    update-pod-sandbox | post-update-pod-sandbox)
        if [ "$world" = unknown ]; then
            reply=UNIMPLEMENTED
        elif [ "$1" = update-pod-sandbox ]; then
            relay UpdatePodSandbox
        else
            relay PostUpdatePodSandbox
        fi
        ;;
    *) unsupported=,\"unsupported\":true ;;
    esac
}

while IFS= read -r line; do
    id=${line#'{"id":'}
    id=${id%%,*}
    reply='' outputs='' unsupported=''
    case $line in
    *'"reset":'*) state=absent world=ok ;;
    *'"arrange":'*)
        word outcome
        case $word in
        ok | error | lost | unknown) [ "$wrong" = deaf ] || world=$word ;;
        *) unsupported=,\"unsupported\":true ;;
        esac
        ;;
    *'"do":'*)
        word do
        do_event "$word"
        world=ok
        ;;
    esac
    printf '{"id":%s%s,"outputs":[%s]%s}\n' "$id" "${reply:+,\"reply\":\"$reply\"}" "$outputs" "$unsupported"
done
