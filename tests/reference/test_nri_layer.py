"""The reference NRI layer handles plugins, domains and configurations, and can be started and stopped."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from nri_parts import ONE, POD, TWO, FakePlugin, adjusted, always, domain_of_two

from fsm.runtimes.reference.nri import NRI, sut
from fsm.runtimes.reference.nri.messages import (
    Answer,
    ChangesFailedError,
    ConflictError,
    Container,
    ContainerState,
    Domain,
    Domains,
    Eviction,
    NRIError,
    NRIStoppedError,
    PluginLostError,
    ReentrantError,
    RegistrationError,
    Request,
    Update,
)
from fsm.runtimes.reference.nri.session import Config, default_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nri_parts import Heard

    from fsm.machine import Outcome
    from fsm.runtimes.reference.nri.messages import Pod


def relayed(event: str, nri: NRI) -> object:
    return nri.relay(event, POD, None if event.endswith("sandbox") else ONE)


CALLS: dict[str, Callable[[NRI], object]] = {
    **{event: partial(relayed, event) for event in sut.CALLS},
    "notify_container_exit": lambda nri: nri.notify_container_exit(POD, ONE),
    "update_containers": lambda nri: nri.update_containers([Update(container_id="c1")]),
    "register": lambda nri: nri.register(FakePlugin(index="30")),
    "disconnect": lambda nri: nri.disconnect(FakePlugin()),
    "block_plugin_sync": lambda nri: nri.block_plugin_sync().unblock(),
    "start": lambda nri: nri.start(),
    "stop": lambda nri: nri.stop(),
}


@pytest.fixture
def layers() -> Iterator[Callable[..., NRI]]:
    made: list[NRI] = []

    def make(*plugins: FakePlugin, domain: Domain | None = None, **config: Any) -> NRI:  # noqa: ANN401  # the fields of a Config
        made.append(NRI(Config(**config), Domains([domain] if domain else []), plugins))
        made[-1].start()
        return made[-1]

    yield make
    for nri in made:
        nri.stop()


def fails(code: str = "INTERNAL") -> Callable[[Request], Answer]:
    def answer(request: Request) -> Answer:
        raise NRIError(f"no {request.event}", code=code)

    return answer


def hangs_up(request: Request) -> Answer:
    raise PluginLostError(request.event)


def threads_of(name: str) -> list[threading.Thread]:
    threads = [thread for thread in threading.enumerate() if thread.name.endswith(f"-{name}")]
    for thread in threads:
        thread.join(1)
    return [thread for thread in threads if thread.is_alive()]


def test_plugins_are_called_by_index_and_subscription(layers: Callable[..., NRI]) -> None:
    heard: Heard = []
    nri = layers(FakePlugin(index="20", heard=heard), FakePlugin(index="05", heard=heard, events={"StopContainer"}))
    nri.register(FakePlugin(index="10", heard=heard))

    nri.relay("create-container", POD, ONE)
    nri.relay("stop-container", POD, ONE)

    assert nri.plugins == ("05-fake", "10-fake", "20-fake")
    assert heard == [
        ("10", "CreateContainer"),
        ("20", "CreateContainer"),
        ("05", "StopContainer"),
        ("10", "StopContainer"),
        ("20", "StopContainer"),
    ]


def test_an_error_ends_the_relay_and_keeps_its_code(layers: Callable[..., NRI]) -> None:
    """A request ends with the first error and its code. The next request reaches all plugins again."""
    heard: Heard = []
    bad = FakePlugin(index="10", heard=heard, answers={"StartContainer": fails("RESOURCE_EXHAUSTED")})
    nri = layers(bad, FakePlugin(index="20", heard=heard))

    with pytest.raises(NRIError, match="plugin 10-fake: no StartContainer") as caught:
        nri.relay("start-container", POD, ONE)
    nri.relay("post-start-container", POD, ONE)

    assert caught.value.code == "RESOURCE_EXHAUSTED"
    assert heard == [("10", "StartContainer"), ("10", "PostStartContainer"), ("20", "PostStartContainer")]
    assert nri.container_state("c1") == "running"


def test_any_exception_is_an_error(layers: Callable[..., NRI]) -> None:
    def divides(request: Request) -> Answer:
        return Answer(adjust={request.event: 1 // 0})

    nri = layers(FakePlugin(answers={"CreateContainer": divides}))

    with pytest.raises(NRIError, match="plugin 10-fake: ") as caught:
        nri.relay("create-container", POD, ONE)

    assert caught.value.code == "UNKNOWN"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert nri.plugins == ("10-fake",)


@pytest.mark.parametrize("lost", ["10", "20"])
def test_a_lost_plugin_is_skipped_and_removed(layers: Callable[..., NRI], lost: str) -> None:
    heard: Heard = []
    nri = layers(
        *(
            FakePlugin(index=each, heard=heard, answers={"StopContainer": hangs_up} if each == lost else {})
            for each in ("10", "20")
        )
    )
    nri.relay("create-container", POD, ONE)
    heard.clear()

    nri.relay("remove-container", POD, ONE)

    left = "10" if lost == "20" else "20"
    assert heard == [("10", "StopContainer"), ("20", "StopContainer"), (left, "RemoveContainer")]
    assert nri.plugins == (f"{left}-fake",)


def test_a_plugin_that_does_not_answer_in_time_is_lost(layers: Callable[..., NRI]) -> None:
    """A plugin that does not answer in time is disconnected. The call succeeds, and a late answer is dropped."""
    free = threading.Event()

    def waits(_: Request) -> Answer:
        free.wait()
        return Answer(adjust={"too": "late"})

    nri = layers(FakePlugin(answers={"CreateContainer": waits}), FakePlugin(index="20"), plugin_request_timeout=0.05)

    assert adjusted(nri) == {}
    free.set()

    assert nri.plugins == ("20-fake",)
    assert nri.container_state("c1") == "created"


def test_a_plugin_that_ends_its_thread_is_lost(layers: Callable[..., NRI]) -> None:
    def leaves(_: Request) -> Answer:
        raise SystemExit

    nri = layers(FakePlugin(answers={"CreateContainer": leaves}))

    assert adjusted(nri) == {}
    assert nri.plugins == ()


@pytest.mark.parametrize("error", [fails(), hangs_up])
@pytest.mark.parametrize("first", [fails(), hangs_up])
def test_an_error_after_a_loss_is_an_error(
    layers: Callable[..., NRI], first: Callable[[Request], Answer], error: Callable[[Request], Answer]
) -> None:
    nri = layers(
        FakePlugin(answers={"StopContainer": first}), FakePlugin(index="20", answers={"RemoveContainer": error})
    )
    nri.relay("create-container", POD, ONE)

    if error is hangs_up:
        nri.relay("remove-container", POD, ONE)
    else:
        with pytest.raises(NRIError, match="20-fake"):
            nri.relay("remove-container", POD, ONE)

    assert nri.container_state("c1") == "absent"


@pytest.mark.parametrize(
    ("plugin", "named"),
    [
        (FakePlugin(name="a b"), "plugin name 'a b'"),
        (FakePlugin(name=""), "plugin name ''"),
        (FakePlugin(index="7"), "plugin index '7'"),
        (FakePlugin(index="1a"), "plugin index '1a'"),
        (FakePlugin(events={"EatContainer"}), "plugin events EatContainer: there are CreateContainer"),
    ],
)
def test_a_plugin_that_cannot_be_registered(layers: Callable[..., NRI], plugin: FakePlugin, named: str) -> None:
    nri = layers()

    with pytest.raises(RegistrationError, match=named) as caught:
        nri.register(plugin)

    assert caught.value.code == "INVALID_ARGUMENT"
    assert nri.plugins == ()


def test_the_outcome_says_where_a_plugin_was_lost(layers: Callable[..., NRI], monkeypatch: pytest.MonkeyPatch) -> None:
    nri = layers(FakePlugin(answers={"StopContainer": hangs_up}))
    nri.relay("create-container", POD, ONE)
    taken: list[str] = []
    take = nri._entities.containers.take  # noqa: SLF001  # to record the outcome

    def recording(entity: str, event: str, outcome: str = "") -> Outcome:
        taken.append(outcome)
        return take(entity, event, outcome)

    monkeypatch.setattr(nri._entities.containers, "take", recording)  # noqa: SLF001  # see above
    nri.relay("remove-container", POD, ONE)

    assert taken == ["lost-at-stop"]


def test_a_plugin_that_joins_is_synchronised(layers: Callable[..., NRI]) -> None:
    """A plugin is synchronised once, when it joins.

    The updates that it requests are made, and the layer remembers the listed states.
    """
    running = replace(ONE, state=ContainerState.RUNNING)
    update = Update(container_id="c1", resources={"cpu.shares": 2})
    domain = domain_of_two(containers=(running,))
    plugin = FakePlugin(wants=lambda: [update])
    nri = layers(domain=domain)

    nri.register(plugin)

    assert plugin.synchronised == [((POD,), (running,))]
    assert domain.done == [update]
    assert (nri.container_state("c1"), nri.pod_state("p1")) == ("running", "absent")


@pytest.mark.parametrize(
    ("listed", "remembered"),
    [*zip(ContainerState, ("absent", "created", "running", "running", "stopped"), strict=True)],
)
def test_a_start_restores_what_the_domains_list(listed: ContainerState, remembered: str) -> None:
    """Even without plugins, a start restores the listed states. Containers that are not listed keep their states."""
    nri = NRI(domains=Domains([domain_of_two(containers=(replace(ONE, state=listed),))]))
    nri.relay("create-container", POD, ONE)
    nri.relay("create-container", POD, TWO)

    nri.start()

    assert (nri.container_state("c1"), nri.container_state("c2")) == (remembered, "created")


def test_a_plugin_that_cannot_be_synchronised_does_not_join(layers: Callable[..., NRI]) -> None:
    def fails_to_synchronise() -> tuple[Update, ...]:
        raise NRIError("not now", code="UNAVAILABLE")

    nri = layers()
    with pytest.raises(RegistrationError, match="plugin 10-forgetful could not be synchronised: not now") as caught:
        nri.register(FakePlugin(name="forgetful", wants=fails_to_synchronise))

    assert caught.value.code == "UNAVAILABLE"
    assert nri.plugins == ()
    assert threads_of("forgetful") == []


def test_a_failed_start_can_be_repeated() -> None:
    broken = [True]

    def fails_once() -> tuple[Update, ...]:
        if broken.pop():
            raise NRIError("not now")
        return ()

    nri = NRI(plugins=[FakePlugin(index="10"), FakePlugin(index="20", wants=fails_once)])
    with pytest.raises(RegistrationError):
        nri.start()
    assert not nri.plugins
    broken.append(False)

    nri.start()
    assert nri.plugins == ("10-fake", "20-fake")
    with pytest.raises(NRIError, match="started already"):
        nri.start()
    nri.stop()


def test_a_disconnected_plugin_is_not_called(layers: Callable[..., NRI]) -> None:
    heard: Heard = []
    first, second = FakePlugin(index="10", heard=heard), FakePlugin(index="20", heard=heard)
    nri = layers(first, second)

    nri.disconnect(first)
    nri.disconnect(first)
    nri.relay("run-pod-sandbox", POD)

    assert heard == [("20", "RunPodSandbox")]


def test_connections_can_be_disabled(layers: Callable[..., NRI]) -> None:
    """If connections are disabled, installed plugins still join, but no plugin can connect by itself."""
    nri = layers(FakePlugin(), disable_connections=True)

    with pytest.raises(RegistrationError, match="connections are disabled"):
        nri.register(FakePlugin(index="20"))

    assert nri.plugins == ("10-fake",)


def test_adjustments_are_merged(layers: Callable[..., NRI]) -> None:
    """Later plugins see the adjustments that earlier plugins made."""
    first = FakePlugin(answers={"CreateContainer": lambda _: Answer(adjust={"env.A": "1"})})
    second = FakePlugin(index="20", answers={"CreateContainer": lambda _: Answer(adjust={"env.B": "2"})})
    nri = layers(first, second)

    assert adjusted(nri) == {"env.A": "1", "env.B": "2"}
    assert [first.requests[0].adjusted, second.requests[0].adjusted] == [{}, {"env.A": "1"}]


@pytest.mark.parametrize("same", [True, False])
def test_a_field_belongs_to_one_plugin(layers: Callable[..., NRI], *, same: bool) -> None:
    """Two plugins conflict over a field even if they set the same value."""
    wants = {index: Answer(adjust={"env.A": "x" if same else index}) for index in ("10", "20")}
    nri = layers(*(FakePlugin(index=index, answers={"CreateContainer": always(each)}) for index, each in wants.items()))

    with pytest.raises(ConflictError, match=r"plugins '20-fake' and '10-fake' both set env\.A of container c1"):
        nri.relay("create-container", POD, ONE)

    assert nri.container_state("c1") == "created"


def test_a_creation_updates_and_evicts_other_containers(layers: Callable[..., NRI]) -> None:
    """A creation evicts containers, and then updates others even if an eviction has failed."""
    update, eviction = (
        Update(container_id="c2", resources={"cpu.shares": 2}),
        Eviction(container_id="c2", reason="room"),
    )
    gone = Eviction(container_id="c1")
    domain = domain_of_two(stubborn=("c1",))
    answer = Answer(adjust={"env.A": "1"}, updates=(update, Update(container_id="?")), evictions=(gone, eviction))
    nri = layers(FakePlugin(answers={"CreateContainer": lambda _: answer}), domain=domain)

    assert adjusted(nri, Container(id="c3")) == {"env.A": "1"}
    assert domain.done == [eviction, update]


def test_nothing_is_changed_if_a_plugin_fails(layers: Callable[..., NRI]) -> None:
    domain = domain_of_two()
    answer = Answer(updates=(Update(container_id="c2"),))
    nri = layers(
        FakePlugin(answers={"CreateContainer": lambda _: answer}),
        FakePlugin(index="20", answers={"CreateContainer": fails()}),
        domain=domain,
    )

    with pytest.raises(NRIError, match=r"plugin .*: "):
        nri.relay("create-container", POD, ONE)

    assert domain.done == []


def test_a_container_being_created_cannot_be_updated(layers: Callable[..., NRI]) -> None:
    answer = Answer(updates=(Update(container_id="c1", ignore_failure=True),))
    nri = layers(FakePlugin(answers={"CreateContainer": lambda _: answer}))

    with pytest.raises(NRIError, match="requested an update of c1 during its creation") as caught:
        nri.relay("create-container", POD, ONE)

    assert caught.value.code == "INVALID_ARGUMENT"


def test_an_update_returns_its_own_resources_and_updates_others(layers: Callable[..., NRI]) -> None:
    """An update returns the requested resources as changed by plugins, and updates other containers."""
    own = Update(container_id="c1", resources={"cpu.shares": 4})
    other = Update(container_id="c2", resources={"cpu.shares": 1})
    domain = domain_of_two()
    nri = layers(FakePlugin(answers={"UpdateContainer": lambda _: Answer(updates=(own, other))}), domain=domain)

    answers = nri.relay("update-container", POD, ONE, {"cpu.shares": 2, "memory.limit": 8})

    assert answers is not None
    assert answers.own == {"cpu.shares": 4, "memory.limit": 8}
    assert domain.done == [other]


def test_an_update_that_no_plugin_changes(layers: Callable[..., NRI]) -> None:
    nri = layers(FakePlugin())

    answers = nri.relay("update-container", POD, ONE, {"cpu.shares": 2})

    assert answers is not None
    assert answers.own is None


def test_a_refused_update_claims_no_fields(layers: Callable[..., NRI]) -> None:
    updates = {
        "10": Update(container_id="c2", resources={"cpu.shares": 1}),
        "20": Update(container_id="c2", resources={"memory.limit": 2, "cpu.shares": 2}, ignore_failure=True),
        "30": Update(container_id="c2", resources={"memory.limit": 3}, ignore_failure=True),
    }
    domain = domain_of_two()
    nri = layers(
        *(
            FakePlugin(index=index, answers={"StopContainer": always(Answer(updates=(each,)))})
            for index, each in updates.items()
        ),
        domain=domain,
    )
    nri.relay("create-container", POD, ONE)

    nri.relay("stop-container", POD, ONE)

    assert domain.done == [Update(container_id="c2", resources={"cpu.shares": 1, "memory.limit": 3})]


def test_answers_that_an_event_does_not_allow_are_ignored(layers: Callable[..., NRI]) -> None:
    answer = Answer(
        adjust={"env.A": "1"}, updates=(Update(container_id="c2"),), evictions=(Eviction(container_id="c2"),)
    )
    domain = domain_of_two()
    nri = layers(FakePlugin(answers={"PostStartContainer": lambda _: answer}), domain=domain)

    nri.relay("post-start-container", POD, ONE)

    assert domain.done == []


def test_a_removal_makes_the_updates_of_its_stop(layers: Callable[..., NRI]) -> None:
    """Updates that a plugin requests in its answer to the stop are made before the removal is relayed."""
    order: list[object] = []
    domain = domain_of_two()
    domain.done = order

    def removes(_: Request) -> Answer:
        order.append("removed")
        return Answer()

    update = Update(container_id="c2", resources={"cpu.shares": 1})
    nri = layers(
        FakePlugin(answers={"StopContainer": lambda _: Answer(updates=(update,)), "RemoveContainer": removes}),
        domain=domain,
    )
    nri.relay("create-container", POD, ONE)

    nri.relay("remove-container", POD, ONE)

    assert order == [update, "removed"]


def test_a_plugin_requests_updates(layers: Callable[..., NRI]) -> None:
    updates = [Update(container_id=each) for each in ("c1", "?", "c2")]
    domain = domain_of_two(stubborn=("c1",))
    nri = layers(domain=domain)

    with pytest.raises(ChangesFailedError, match="update of some containers failed: c1") as caught:
        nri.update_containers(updates)

    assert caught.value.failed == (updates[0],)
    assert domain.done == [updates[2]]


@pytest.mark.parametrize("call", CALLS)
def test_a_plugin_that_is_called_cannot_call_the_layer(layers: Callable[..., NRI], call: str) -> None:
    """A plugin that calls the layer during a request gets an error, because the layer would wait for itself."""
    errors: list[Exception] = []
    answering: list[NRI] = []

    def call_back(_: Request) -> Answer:
        try:
            CALLS[call](answering[0])
        except NRIError as error:
            errors.append(error)
        return Answer()

    nri = layers(FakePlugin(answers={"CreateContainer": call_back}), plugin_request_timeout=1)
    answering.append(nri)
    nri.relay("create-container", POD, ONE)

    assert [type(error) for error in errors] == [ReentrantError]
    assert nri.plugins == ("10-fake",)


def test_a_domain_that_is_called_cannot_call_the_layer() -> None:
    class Asking(tuple[Container, ...]):
        __slots__ = ()

        def __iter__(self) -> Iterator[Container]:
            nri.relay("run-pod-sandbox", POD)
            return super().__iter__()

    nri = NRI(domains=Domains([Domain(containers=Asking())]))
    errors: list[Exception] = []

    def starts() -> None:
        try:
            nri.start()
        except ReentrantError as error:
            errors.append(error)

    thread = threading.Thread(target=starts, daemon=True)
    thread.start()
    thread.join(10)  # if the layer waited for itself, it would wait forever

    assert len(errors) == 1


def test_domains_are_known_by_name() -> None:
    domains = Domains([domain_of_two("a"), domain_of_two("b")])

    assert len(domains.containers()) == 4
    with pytest.raises(NRIError, match="failed to register namespace 'a'") as duplicate:
        domains.register(domain_of_two("a"))
    assert duplicate.value.code == "ALREADY_EXISTS"


def test_each_domain_changes_its_own_containers() -> None:
    one, two = domain_of_two("a", containers=(ONE,)), domain_of_two("b", containers=(TWO,))
    domains = Domains([one, two])

    domains.change([Update(container_id="c2"), Update(container_id="c1")])
    domains.change([Eviction(container_id="c2")])

    assert one.done == [Update(container_id="c1")]
    assert two.done == [Update(container_id="c2"), Eviction(container_id="c2")]
    assert domains.containers() == (ONE, TWO)
    assert domains.pods() == (POD, POD)


def test_failures_are_collected_unless_they_are_ignored() -> None:
    domain = domain_of_two(stubborn=("c1",))
    domains = Domains([domain])
    silent, loud = Update(container_id="c1", ignore_failure=True), Update(container_id="c1")
    evictions = [Eviction(container_id="c1"), Eviction(container_id="c2")]

    domains.change([silent])
    with pytest.raises(ChangesFailedError, match="update of some containers failed: c1") as updates:
        domains.change([silent, loud, Update(container_id="c2")])
    with pytest.raises(ChangesFailedError, match="eviction of some containers failed: c1") as evicted:
        domains.change(evictions)

    assert updates.value.failed == (loud,)
    assert evicted.value.failed == (evictions[0],)
    assert domain.done == [Update(container_id="c2"), evictions[1]]


def test_the_default_configuration() -> None:
    assert default_config() == Config(
        disable=False,
        socket_path="/var/run/nri/nri.sock",
        plugin_registration_timeout=5,
        plugin_request_timeout=2,
        disable_connections=False,
    )
    assert default_config("containerd-1.7").disable
    with pytest.raises(ValueError, match=r"unknown release 'containerd-0\.2'; known are containerd-2\.1"):
        default_config("containerd-0.2")


def test_timeouts() -> None:
    """Zero means the default timeout, and a negative timeout is refused. Layers do not share timeouts."""
    config = Config(plugin_registration_timeout=0, plugin_request_timeout=0)

    assert (config.registration_timeout, config.request_timeout) == (5, 2)
    assert Config(plugin_request_timeout=1).request_timeout == 1
    assert config.request_timeout == 2
    with pytest.raises(ValueError, match="plugin_request_timeout is -1"):
        Config(plugin_request_timeout=-1)


@pytest.mark.parametrize("call", CALLS)
def test_a_disabled_layer_does_nothing(call: str) -> None:
    plugin, domain = FakePlugin(), domain_of_two()
    nri = NRI(Config(disable=True), Domains([domain]), [plugin])
    nri.start()

    for _ in range(2):
        assert CALLS[call](nri) is None

    assert not nri.is_enabled()
    assert (nri.plugins, plugin.heard, plugin.synchronised, domain.done) == ((), [], [], [])
    assert (nri.container_state("c1"), nri.pod_state("p1")) == ("absent", "absent")


def test_an_old_release() -> None:
    """Release 1.7.2 has neither updates of pods nor blocks, and a start restores nothing."""
    plugin = FakePlugin()
    domain = domain_of_two(containers=(replace(ONE, state=ContainerState.RUNNING),))
    nri = NRI(Config(release="containerd-1.7"), Domains([domain]), [plugin])
    nri.start()

    for call in ("update-pod-sandbox", "post-update-pod-sandbox", "block_plugin_sync"):
        with pytest.raises(NRIError) as caught:
            CALLS[call](nri)
        assert caught.value.code == "UNIMPLEMENTED"

    assert (plugin.heard, plugin.synchronised, nri.container_state("c1")) == ([], [], "absent")
    nri.stop()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("state", ["absent", "running"])
def test_every_call_after_the_stop_is_an_error(call: str, state: str) -> None:
    """Every call after the stop fails, or has no effect if it cannot return an error.

    Containerd deletes its plugins at the stop. A second stop therefore crashes in containerd, as does a call that has
    to be relayed; a call that need not be relayed succeeds.
    """
    plugin = FakePlugin()
    nri = NRI(plugins=[plugin])
    nri.start()
    if state == "running":
        nri.relay("start-container", POD, ONE)
        nri.relay("run-pod-sandbox", POD)
    plugin.heard.clear()
    nri.stop()

    if call in {"notify_container_exit", "block_plugin_sync", "stop"}:
        assert CALLS[call](nri) is None
    else:
        with pytest.raises(NRIStoppedError) as caught:
            CALLS[call](nri)
        assert caught.value.code == "UNAVAILABLE"

    assert (nri.container_state("c1"), plugin.heard) == (state, [])


def test_the_stop_ends_the_threads_of_plugins() -> None:
    names: list[str] = []

    def answer(_: Request) -> Answer:
        names.append(threading.current_thread().name)
        return Answer()

    nri = NRI(plugins=[FakePlugin(name="short-lived", answers={"RunPodSandbox": answer})])
    nri.start()
    nri.relay("run-pod-sandbox", POD)
    assert names == ["plugin 10-short-lived"]

    nri.stop()

    assert nri.plugins == ()
    assert threads_of("short-lived") == []


def test_a_call_that_the_stop_overtakes_is_an_error() -> None:
    plugin = FakePlugin()
    nri = NRI(plugins=[plugin])
    nri.start()

    class Overtaken:
        def __enter__(self) -> None:
            nri._life.take("stop", "stopped")  # noqa: SLF001  # the stop overtakes it

        def __exit__(self, *_: object) -> None: ...

    nri._life.lock = Overtaken()  # type: ignore[assignment]  # noqa: SLF001  # the stop overtakes it
    with pytest.raises(NRIStoppedError):
        nri.relay("run-pod-sandbox", POD)

    assert (plugin.heard, nri.pod_state("p1")) == ([], "absent")
    nri._plugins.close()  # noqa: SLF001  # what the stop would have done


def test_an_exit_that_the_stop_overtakes_is_dropped() -> None:
    """An exit that comes after the stop is dropped without an error. Such an exit ends the process of containerd."""
    free = threading.Event()

    class Late(NRI):
        def _relay_exit(self, pod: Pod, container: Container) -> None:
            free.wait()
            super()._relay_exit(pod, container)

    nri = Late(plugins=[FakePlugin()])
    nri.start()
    nri.relay("start-container", POD, ONE)
    nri.notify_container_exit(POD, ONE)
    nri.stop()
    free.set()

    nri.wait_for_exits()

    assert nri.container_state("c1") == "running"
