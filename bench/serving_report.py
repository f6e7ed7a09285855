"""What bench/serving.py measured, summed up over its rounds, and as a table."""
import statistics

# What is read from /metrics before and after each round, by the name that results give it.
METRICS = {"tokens": "espalier_tokens_total", "rows": "espalier_compact_tokens_total",
           "batches": "espalier_batches_total", "plans": "espalier_plan_duration_seconds_count",
           "plan_seconds": "espalier_plan_duration_seconds_sum",
           "compute_seconds": "espalier_compute_duration_seconds_sum",
           "idle_seconds": "espalier_worker_idle_seconds_total"}


def share(part, whole):
    return None if part is None else part / whole


def summarise(workload, answers, results):
    modes = {}
    for mode, rounds in results.items():
        total = {name: None if rounds[0][name] is None else sum(r[name] for r in rounds)
                 for name in ("seconds", *METRICS)}
        modes[mode] = {
            **{f"{unit}_per_second": statistics.median(r[f"{unit}_per_second"] for r in rounds)
               for unit in ("requests", "prompts", "tokens")},
            "tokens": total["tokens"] / len(rounds),
            "rows": total["rows"] / len(rounds),
            "batches": total["batches"] / len(rounds),
            "plan_seconds_per_batch": share(total["plan_seconds"], max(1, total["plans"])),
            "compute_share": share(total["compute_seconds"], total["seconds"]),
            "worker_idle_share": share(total["idle_seconds"], total["seconds"]),
            "rounds": rounds,
        }
    ratios = [off["seconds"] / trie["seconds"] for trie, off in zip(results["trie"], results["off"], strict=True)]
    return {
        "workload": workload.name,
        "about": workload.about,
        "requests": len(workload.bodies),
        "prompts": workload.prompts,
        "in_flight": workload.in_flight,
        "answers": answers,
        "times_as_fast_as_off": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios),
                                 "rounds": ratios},
        "predicted_by_rows": modes["off"]["rows"] / modes["trie"]["rows"],
        "modes": modes,
    }


def percent(value):
    return "–" if value is None else f"{100 * value:.1f} %"


def table(summaries):
    """Markdown."""
    yield ("| workload | mode | requests/s | prompts/s | tokens/s | tokens → rows | batches | plan/batch | computing "
           "| idle | others |")
    yield "|" + "---|" * 11
    for summary in summaries:
        for mode, m in summary["modes"].items():
            others = statistics.median(r["cpus_of_others"] for r in m["rounds"])
            yield (f"| {summary['workload']} | {mode} | {m['requests_per_second']:.3f} | {m['prompts_per_second']:.2f} "
                   f"| {m['tokens_per_second']:.0f} | {m['tokens']:.0f} → {m['rows']:.0f} | {m['batches']:.1f} "
                   f"| {1000 * m['plan_seconds_per_batch']:.2f} ms | {percent(m['compute_share'])} "
                   f"| {percent(m['worker_idle_share'])} | {others:.1f} CPUs |")
    yield ""
    yield "| workload | trie is faster than off | min … max of the rounds | predicted by rows | same bits |"
    yield "|" + "---|" * 5
    for summary in summaries:
        ratio = summary["times_as_fast_as_off"]
        yield (f"| {summary['workload']} | {ratio['median']:.2f} × | {ratio['min']:.2f} … {ratio['max']:.2f} "
               f"| {summary['predicted_by_rows']:.2f} | {'yes' if summary['answers']['same_bits'] else 'NO'} |")
