"""Forms of recordings can be sent to other processes together with results."""

from __future__ import annotations

import pickle

import pytest

from fsm.recordings.form import HISTORY, RecordingForm, own_forms


@pytest.mark.parametrize("form", [*own_forms(), HISTORY], ids=lambda form: form.name)
def test_a_form_can_be_pickled(form: RecordingForm) -> None:
    again = pickle.loads(pickle.dumps(form))  # noqa: S301  (what this test has pickled)
    assert (again.name, again.sniff(b"{}"), again.machines) == (form.name, form.sniff(b"{}"), form.machines)
