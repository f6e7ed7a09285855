#!/usr/bin/env python3
"""The include check itself: it must find each kind of violation, and nothing else."""
import unittest

from check_includes import violations


class CheckIncludes(unittest.TestCase):
    def found(self, path, *includes):
        return list(violations(path, "".join(f"#include {i}\n" for i in includes)))

    def test_scheduler_may_not_see_models(self):
        self.assertEqual(len(self.found("scheduler/planner.cpp", '"models/model.h"')), 1)

    def test_scheduler_sees_the_contract_but_not_the_rest_of_engine(self):
        self.assertEqual(self.found("scheduler/planner.cpp", '"engine/batch_plan.h"'), [])
        self.assertEqual(len(self.found("scheduler/planner.cpp", '"engine/gemm.h"')), 1)

    def test_text_and_engine_see_nobody(self):
        self.assertEqual(len(self.found("text/bpe.cpp", '"engine/mat_view.h"')), 1)
        self.assertEqual(len(self.found("engine/sgemm.cpp", '"text/tokenizer.h"')), 1)

    def test_the_hub_sees_nobody_and_commands_alone_see_it(self):
        self.assertEqual(len(self.found("hub/fetch.cpp", '"models/json_file.h"')), 1)
        self.assertEqual(len(self.found("server/http/http_server.cpp", '"hub/fetch.h"')), 1)
        self.assertEqual(self.found("server/commands/model_files.cpp", '"hub/fetch.h"'), [])

    def test_server_names_no_concrete_model_but_its_commands_do(self):
        self.assertEqual(len(self.found("server/api/api_routes.cpp", '"models/model.h"')), 1)
        self.assertEqual(len(self.found("server/api/api_routes.cpp", '"server/commands/options.h"')), 1)
        self.assertEqual(self.found("server/commands/runtime.cpp", '"models/model.h"', '"engine/gemm.h"'), [])

    def test_heavy_headers_have_one_includer(self):
        self.assertEqual(len(self.found("server/api/api_routes.cpp", "<httplib.h>")), 1)
        self.assertEqual(len(self.found("engine/gemm.cpp", "<cblas.h>")), 1)
        self.assertEqual(len(self.found("server/api/api_routes.cpp", "<prometheus/counter.h>")), 1)

    def test_json_is_in_no_header(self):
        self.assertEqual(len(self.found("server/api/json_request.h", "<nlohmann/json.hpp>")), 1)
        self.assertEqual(self.found("server/api/json_request.cpp", "<nlohmann/json.hpp>"), [])


if __name__ == "__main__":
    unittest.main()
