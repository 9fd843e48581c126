"""The page's screen of models: what an admin sees and changes, and how that is undone."""

from commonbrain_learn.model_registry import models_of
from ranking_helpers import ByFeature, Shop

from commonbrain.client import Brain
from commonbrain.model.model_card import ModelState, model_name
from commonbrain.model.scope import Role
from tests.web.people import visiting

HOSTILE = "<script>alert(1)</script>"


def test_unknown_model_is_not_found(brain: Brain) -> None:
    with visiting(brain) as ann:
        ann.read("/admin/models?id=mdl_0000000000000", status=404)


def test_writer_cannot_start_a_training(brain: Brain) -> None:
    with visiting(brain, Role.WRITER) as rea:
        assert "insufficient_role" in rea.send("model", status=403, op="train")


def test_model_becomes_canary_then_active_and_is_rolled_back(brain: Brain) -> None:
    card = Shop().card(brain, ByFeature(), told={"outcome": "better", "note": HOSTILE})
    model = model_name(card)
    with visiting(brain) as ann:
        page = ann.see(f"/admin/models?id={model}")
        ann.send("model", op="canary", id=model, percent="20", reason="try it")
        [canary] = ann.read("/admin/models")["page"]["models"]
        card_view = ann.read("/health")["cards"]["model_health_card.html"]
        health = ann.see("/health")
        question = ann.send("model", op="promote", id=model, force="true", reason="it is good")
        assert models_of(brain).show(model).models[0].state is ModelState.CANARY
        ann.confirm(question)
        assert models_of(brain).show(model).models[0].state is ModelState.ACTIVE
        ann.confirm(ann.send("model", op="rollback", id=model, reason="it is not"))

    assert "<script>alert" not in page
    assert f'href="/admin/models?id={model}"' in health
    assert "better" in page
    assert (canary["state"], canary["percent"]) == ("canary", 20)
    assert [one["id"] for one in card_view["models"]] == [model]
    assert [one["verdict"] for one in card_view["guards"]] == ["too_early"]
    assert "Serve every session with a model proven as a canary." in question
    assert models_of(brain).show(model).models[0].state is ModelState.ROLLED_BACK


def test_undo_of_a_canary_takes_it_out_of_service(brain: Brain) -> None:
    model = model_name(Shop().card(brain, ByFeature(), told={"outcome": "better"}))
    with visiting(brain) as ann:
        ann.confirm(ann.send("model", op="canary", id=model, reason="try it"))

    assert models_of(brain).show(model).models[0].state is ModelState.RETIRED


def test_undo_of_a_new_canary_share_restores_the_previous_share(brain: Brain) -> None:
    model = model_name(Shop().card(brain, ByFeature(), told={"outcome": "better"}))
    with visiting(brain) as ann:
        ann.send("model", op="canary", id=model, percent="20", reason="try it")
        more = ann.send("model", op="canary", id=model, percent="40", reason="it is good")
        assert f"{model} | reranker | canary | 40% of sessions" in more
        ann.confirm(more)

    assert models_of(brain).show(model).models[0].percent == 20
