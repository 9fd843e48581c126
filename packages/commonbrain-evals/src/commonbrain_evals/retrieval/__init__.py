"""How well recall finds: public data sets, metrics, baselines, ablation, records and reports."""
