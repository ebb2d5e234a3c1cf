// A container of containerd's NRI layer in Node. It implements the machine nri-container and speaks the protocol of
// docs/reference/exec-protocol.md.
// Usage: node nri_container.js [removes-silently | tells-exits-twice | stays-on-error]
"use strict";

const readline = require("node:readline");

const wrong = process.argv[2];
const NAMES = {
  "create-container": ["CreateContainer", "created"],
  "post-create-container": ["PostCreateContainer"],
  "start-container": ["StartContainer", "running"],
  "post-start-container": ["PostStartContainer"],
  "update-container": ["UpdateContainer"],
  "post-update-container": ["PostUpdateContainer"],
};

class Container {
  state = "absent";
  plugin = "ok";
  outputs = [];

  /** Notify the plugin, which answers as the test has requested. */
  relay(name) {
    if (this.plugin === "gone") return "ok";
    this.outputs.push(name);
    if (this.plugin === "lost" || (this.plugin === "lost-at-stop" && name === "StopContainer")) {
      this.plugin = "gone";
    }
    return this.plugin === "error" ? "UNKNOWN" : "ok";
  }

  stop() {
    if (this.state !== "created" && this.state !== "running") return "ok";
    const reply = this.relay("StopContainer");
    if (reply === "ok" || wrong !== "stays-on-error") this.state = "stopped";
    return reply;
  }

  remove() {
    if (this.state === "absent") return "ok";
    const lost = this.plugin === "lost";
    if (lost) this.plugin = "ok"; // a plugin that is lost during the removal was notified of the stop
    if (wrong !== "removes-silently") this.stop();
    if (lost) this.plugin = "lost";
    this.state = "absent";
    return this.relay("RemoveContainer");
  }

  /** The reply to an event: undefined if the event has no reply, null if the event is unknown. */
  do(event) {
    const [name, next] = NAMES[event] ?? [];
    if (name) {
      this.state = next ?? this.state;
      return this.relay(name);
    }
    if (event === "stop-container") return this.stop();
    if (event === "remove-container") return this.remove();
    if (event.startsWith("sync-")) {
      this.state = event === "sync-gone" ? "absent" : event.slice("sync-".length);
      return undefined;
    }
    if (event !== "notify-exit") return null;
    this.plugin = "ok";
    if (wrong === "tells-exits-twice" && this.state === "stopped") this.state = "running";
    this.stop();
    return undefined;
  }
}

let container = new Container();

function answer(request) {
  if (request.reset) container = new Container();
  if (request.arrange) {
    const known = ["ok", "error", "lost", "lost-at-stop"].includes(request.outcome);
    container.plugin = known ? request.outcome : "ok";
    return { unsupported: !known };
  }
  if (!request.do) return {};
  const reply = container.do(request.do);
  const outputs = container.outputs;
  container.outputs = [];
  container.plugin = "ok";
  return reply === null ? { unsupported: true } : { reply, outputs };
}

console.log(JSON.stringify({ fsm: 1, can: ["outputs", "arrange"] }));
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const request = JSON.parse(line);
  console.log(JSON.stringify({ id: request.id, ...answer(request) }));
});
