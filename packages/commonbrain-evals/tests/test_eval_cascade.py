from commonbrain_evals.cascade import evaluate


def test_cascade_over_generated_graphs_matches_a_reference_model() -> None:
    report = evaluate(graphs=8, big=300, seed=0)
    assert report.failures == ()
    assert report.dependants_marked == report.dependants > 0
    assert (report.bystanders_marked, report.rules_archived, report.archived_wrongly) == (0, 0, 0)
    assert report.restores_exact == report.restores == report.graphs
    assert report.big_marked == report.big_nodes - 1
