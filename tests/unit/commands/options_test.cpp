#include "server/commands/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace espalier::commands {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class OptionsTest : public ::testing::Test {
 protected:
  /// One file a process: CTest runs each test in one, several at a time.
  OptionsTest()
      : file_(::testing::TempDir() + "espalier_options_" + std::to_string(::getpid()) + ".toml") {}
  ~OptionsTest() override { std::remove(file_.c_str()); }

  void write_file(const std::string& text) { std::ofstream(file_) << text; }

  CommandLine parse(const std::vector<std::string>& arguments) const {
    return parse_command_line(
        arguments,
        [this](const char* name) -> const char* {
          const auto found = environment_.find(name);
          return found == environment_.end() ? nullptr : found->second.c_str();
        },
        [] { return std::string("espalier 1.2.3"); });
  }

  std::string file_;
  std::map<std::string, std::string> environment_;
};

TEST_F(OptionsTest, DefaultsApplyWhenNothingIsSet) {
  const auto line = parse({"serve"});
  ASSERT_FALSE(line.exit_code) << line.text;
  EXPECT_EQ(line.command, Command::kServe);
  EXPECT_EQ(line.options.port, 8080);
  EXPECT_EQ(line.options.host, "127.0.0.1");
  EXPECT_EQ(line.options.max_batch_tokens, 4096U);
}

TEST_F(OptionsTest, WhatKubernetesSaysOfAServiceCalledEspalierIsNoPortOfOurs) {
  environment_ = {{"ESPALIER_PORT", "tcp://10.0.0.7:80"},
                  {"ESPALIER_ADMIN_PORT", "tcp://10.0.0.8:1"}};
  for (const char* command : {"serve", "health"}) {
    const auto line = parse({command});
    ASSERT_FALSE(line.exit_code) << line.text;
    EXPECT_EQ(line.options.port, 8080);
    EXPECT_EQ(line.options.admin_port, 0);
  }
  environment_ = {{"ESPALIER_HOST", "tcp://10.0.0.7:80"}, {"ESPALIER_PORT", "http://10.0.0.7:80"}};
  EXPECT_EQ(parse({"serve"}).exit_code, 2);
}

TEST_F(OptionsTest, HealthTakesServesOptionsAndEndsWith1) {
  environment_ = {{"ESPALIER_PORT", "81"}, {"ESPALIER_MODEL", "a"}, {"ESPALIER_TLS_CERT", "c.pem"}};
  const auto line = parse({"health", "--admin-host", "localhost", "--live"});
  ASSERT_FALSE(line.exit_code) << line.text;
  EXPECT_EQ(line.command, Command::kHealth);
  EXPECT_EQ(line.options.port, 81);
  EXPECT_TRUE(line.options.health_live);
  EXPECT_EQ(parse({"health", "--port", "x"}).exit_code, 1);
  EXPECT_EQ(parse({"health", "--model", "a"}).exit_code, 1);
  EXPECT_EQ(parse({"serve", "--live"}).exit_code, 2);
}

TEST_F(OptionsTest, OverloadLimitsHaveDefaultsAndRanges) {
  const auto options = parse({"serve"}).options;
  EXPECT_EQ(options.max_queue_tokens, 2097152U);
  EXPECT_EQ(options.max_batch_inputs, 4096U);
  EXPECT_EQ(options.max_batch_ms, 1000U);
  EXPECT_EQ(options.batch_window_ms, 0U);
  EXPECT_EQ(parse({"serve", "--batch-window-ms", "5"}).options.batch_window_ms, 5U);
  for (const char* zero : {"--max-queue-tokens", "--max-batch-inputs", "--max-batch-ms"})
    EXPECT_EQ(parse({"serve", zero, "0"}).exit_code, 2) << zero;
}

TEST_F(OptionsTest, FileWinsOverDefault) {
  write_file("port = 1001\n");
  EXPECT_EQ(parse({"serve", "--config", file_}).options.port, 1001);
}

TEST_F(OptionsTest, EnvironmentWinsOverFile) {
  write_file("port = 1001\nthreads = 3\n");
  environment_["ESPALIER_PORT"] = "1002";
  const auto options = parse({"serve", "--config", file_}).options;
  EXPECT_EQ(options.port, 1002);
  EXPECT_EQ(options.threads, 3U);
}

TEST_F(OptionsTest, FlagWinsOverEnvironmentAndFile) {
  write_file("port = 1001\n");
  environment_["ESPALIER_PORT"] = "1002";
  EXPECT_EQ(parse({"serve", "--port", "1003", "--config", file_}).options.port, 1003);
}

TEST_F(OptionsTest, TheFileCanBeNamedByTheEnvironment) {
  write_file("max-batch-tokens = 99\n");
  environment_["ESPALIER_CONFIG"] = file_;
  EXPECT_EQ(parse({"embed"}).options.max_batch_tokens, 99U);
}

TEST_F(OptionsTest, OneFileServesAllCommands) {
  write_file("port = 1001\nquery = \"tiger\"\nadd-special-tokens = true\n");
  EXPECT_EQ(parse({"rerank", "--config", file_}).options.query, "tiger");
  EXPECT_TRUE(parse({"tokenize", "--config", file_}).options.add_special_tokens);
}

TEST_F(OptionsTest, AnEmptyVariableIsUnset) {
  environment_["ESPALIER_PORT"] = "";
  EXPECT_EQ(parse({"serve"}).options.port, 8080);
}

TEST_F(OptionsTest, ABadVariableIsNamed) {
  environment_["ESPALIER_PORT"] = "eighty";
  const auto line = parse({"serve"});
  EXPECT_EQ(line.exit_code, 2);
  EXPECT_THAT(line.text, AllOf(HasSubstr("ESPALIER_PORT"), HasSubstr("eighty")));
}

TEST_F(OptionsTest, ABadValueInTheFileNamesFileAndKey) {
  write_file("dedup = \"sometimes\"\n");
  const auto line = parse({"serve", "--config", file_});
  EXPECT_EQ(line.exit_code, 2);
  EXPECT_THAT(line.text, AllOf(HasSubstr(file_), HasSubstr("dedup"), HasSubstr("radixmlp")));
}

TEST_F(OptionsTest, AnUnknownKeyInTheFileIsRefusedWithTheKnownOnes) {
  write_file("prot = 80\n");
  const auto line = parse({"serve", "--config", file_});
  EXPECT_EQ(line.exit_code, 2);
  EXPECT_THAT(line.text, AllOf(HasSubstr("prot"), HasSubstr("port")));
}

TEST_F(OptionsTest, AMalformedFileNamesItsLine) {
  write_file("port = 80\nhost = [\n");
  const auto line = parse({"serve", "--config", file_});
  EXPECT_EQ(line.exit_code, 2);
  EXPECT_THAT(line.text, AllOf(HasSubstr(file_), HasSubstr("line")));
}

TEST_F(OptionsTest, AMissingFileIsAnError) {
  const auto line = parse({"serve", "--config", file_});
  EXPECT_EQ(line.exit_code, 2);
  EXPECT_THAT(line.text, HasSubstr(file_));
}

TEST_F(OptionsTest, AnUnknownFlagIsRefusedWithAPointerToTheHelp) {
  const auto line = parse({"serve", "--prot", "80"});
  EXPECT_EQ(line.exit_code, 2);
  EXPECT_THAT(line.text, AllOf(HasSubstr("--prot"), HasSubstr("espalier serve --help")));
}

TEST_F(OptionsTest, EveryOptionIsExplainedWithItsVariableAndDefault) {
  const auto line = parse({"serve", "--help"});
  EXPECT_EQ(line.exit_code, 0);
  EXPECT_THAT(line.text, AllOf(HasSubstr("ESPALIER_MAX_BATCH_TOKENS"), HasSubstr("=4096"),
                               HasSubstr("--drain-timeout"), HasSubstr("=30")));
}

TEST_F(OptionsTest, RerankNeedsAQueryFromSomewhere) {
  EXPECT_EQ(parse({"rerank"}).exit_code, 2);
  environment_["ESPALIER_QUERY"] = "tiger";
  EXPECT_FALSE(parse({"rerank"}).exit_code);
}

TEST_F(OptionsTest, PromptNameAndInstructionExcludeEachOther) {
  EXPECT_EQ(parse({"embed", "--prompt-name", "query", "--instruction", "Find it"}).exit_code, 2);
}

TEST_F(OptionsTest, SharingAcrossKeysNeedsKeys) {
  const auto line = parse({"serve", "--share-across-keys"});
  EXPECT_EQ(line.exit_code, 2);
  EXPECT_THAT(line.text, HasSubstr("--api-key-file"));
  write_file("share-across-keys = true\napi-key-file = \"keys\"\n");
  EXPECT_TRUE(parse({"serve", "--config", file_}).options.share_across_keys);
  EXPECT_FALSE(parse({"embed", "--config", file_}).exit_code);
}

TEST_F(OptionsTest, RequestTimeoutIsAutomaticUnlessSet) {
  EXPECT_EQ(parse({"serve"}).options.request_timeout, 0U);
  EXPECT_EQ(parse({"serve", "--request-timeout", "7"}).options.request_timeout, 7U);
}

TEST_F(OptionsTest, DebugEndpointsAreOffUnlessSwitchedOn) {
  EXPECT_FALSE(parse({"serve"}).options.debug_endpoints);
  EXPECT_TRUE(parse({"serve", "--debug-endpoints"}).options.debug_endpoints);
  environment_["ESPALIER_DEBUG_ENDPOINTS"] = "true";
  EXPECT_TRUE(parse({"serve"}).options.debug_endpoints);
}

TEST_F(OptionsTest, ThePageIsServedUnlessSwitchedOff) {
  EXPECT_FALSE(parse({"serve"}).options.no_page);
  EXPECT_TRUE(parse({"serve", "--no-page"}).options.no_page);
}

TEST_F(OptionsTest, TokenizerThreadsAreCountedAutomaticallyUnlessSet) {
  EXPECT_EQ(parse({"serve"}).options.tokenizer_threads, 0U);
  EXPECT_EQ(parse({"serve", "--tokenizer-threads", "3"}).options.tokenizer_threads, 3U);
  EXPECT_EQ(parse({"serve", "--tokenizer-threads", "9999"}).exit_code, 2);
}

TEST_F(OptionsTest, CertificateAndKeyBelongTogether) {
  for (const char* option : {"--tls-cert", "--tls-key"}) {
    const auto line = parse({"serve", option, "file.pem"});
    EXPECT_EQ(line.exit_code, 2);
    EXPECT_THAT(line.text, AllOf(HasSubstr("--tls-cert"), HasSubstr("--tls-key")));
  }
  EXPECT_FALSE(parse({"serve", "--tls-cert", "a", "--tls-key", "b"}).exit_code);
}

TEST_F(OptionsTest, AdminPortIsAnotherOne) {
  EXPECT_EQ(parse({"serve"}).options.admin_port, 0);
  EXPECT_EQ(parse({"serve", "--port", "81", "--admin-port", "81"}).exit_code, 2);
  EXPECT_EQ(parse({"serve", "--admin-host", "127.0.0.2"}).exit_code, 2);
  const auto line = parse({"serve", "--admin-port", "82", "--admin-host", "127.0.0.2"});
  EXPECT_EQ(line.options.admin_port, 82);
  EXPECT_EQ(line.options.admin_host, "127.0.0.2");
}

TEST_F(OptionsTest, OriginsAreAList) {
  const std::vector<std::string> two{"https://a.example", "http://localhost:3000"};
  EXPECT_TRUE(parse({"serve"}).options.cors_origins.empty());
  EXPECT_EQ(parse({"serve", "--cors-origin", two[0], "--cors-origin", two[1]}).options.cors_origins,
            two);
  write_file("cors-origin = \"https://a.example,http://localhost:3000\"\n");
  EXPECT_EQ(parse({"serve", "--config", file_}).options.cors_origins, two);
  environment_["ESPALIER_CORS_ORIGIN"] = "*";
  EXPECT_EQ(parse({"serve", "--config", file_}).options.cors_origins,
            std::vector<std::string>{"*"});
  EXPECT_EQ(parse({"serve", "--cors-origin", two[0]}).options.cors_origins.size(), 1U);
}

TEST_F(OptionsTest, TrustedProxiesAreAList) {
  const std::vector<std::string> two{"10.0.0.0/8", "fd00::1"};
  EXPECT_TRUE(parse({"serve"}).options.trusted_proxies.empty());
  EXPECT_EQ(parse({"serve", "--trusted-proxy", "10.0.0.0/8,fd00::1"}).options.trusted_proxies, two);
  EXPECT_EQ(parse({"serve", "--trusted-proxy", two[0], "--trusted-proxy", two[1]})
                .options.trusted_proxies,
            two);
  write_file("trusted-proxy = [\"10.0.0.0/8\", \"fd00::1\"]\n");
  EXPECT_EQ(parse({"serve", "--config", file_}).options.trusted_proxies, two);
  environment_["ESPALIER_TRUSTED_PROXY"] = "private";
  EXPECT_EQ(parse({"serve", "--config", file_}).options.trusted_proxies,
            std::vector<std::string>{"private"});
}

TEST_F(OptionsTest, ModelsComeFromFlagsEnvironmentAndFile) {
  const std::vector<std::string> two = {"a=/x", "b=/y"};
  EXPECT_EQ(parse({"serve", "--model", "a=/x", "--model", "b=/y"}).options.models, two);
  write_file("model = [\"a=/x\", \"b=/y\"]\n");
  EXPECT_EQ(parse({"serve", "--config", file_}).options.models, two);
  write_file("model = \"/z\"\n");
  EXPECT_EQ(parse({"serve", "--config", file_}).options.models, std::vector<std::string>{"/z"});
  environment_["ESPALIER_MODEL"] = "a=/x,b=/y";
  EXPECT_EQ(parse({"serve", "--config", file_}).options.models, two);
  EXPECT_EQ(parse({"serve", "--model", "/w"}).options.models, std::vector<std::string>{"/w"});
}

TEST_F(OptionsTest, AnArrayIsForOptionsThatAreLists) {
  write_file("port = [1001, 1002]\n");
  const auto line = parse({"serve", "--config", file_});
  EXPECT_EQ(line.exit_code, 2);
  EXPECT_THAT(line.text, AllOf(HasSubstr("`port`"), HasSubstr("1001, 1002")));
  write_file("model = [[\"a\"]]\n");
  EXPECT_THAT(parse({"serve", "--config", file_}).text, HasSubstr("an array of them"));
}

TEST_F(OptionsTest, UnknownOptionsAreNamedAndTheirValuesAreNot) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"serve", "--api-kee", "sk-secret"},
        {"serve", "--api-kee=sk-secret"},
        {"--api-kee", "sk-secret", "serve"}}) {
    const auto line = parse(arguments);
    EXPECT_EQ(line.exit_code, 2);
    EXPECT_THAT(line.text, AllOf(HasSubstr("--api-kee"), HasSubstr("--help")));
    EXPECT_THAT(line.text, Not(HasSubstr("secret")));
  }
  const auto line = parse({"serve", "--api-key", "one", "sk-secret"});
  EXPECT_EQ(line.exit_code, 2);
  EXPECT_THAT(line.text, AllOf(HasSubstr("belong to no option"), Not(HasSubstr("secret"))));
  EXPECT_THAT(parse({"server", "--port", "1"}).text, HasSubstr("--port"));
  EXPECT_THAT(parse({"server"}).text, HasSubstr("no command server"));
}

TEST_F(OptionsTest, VersionIsPrinted) {
  const auto line = parse({"--version"});
  EXPECT_EQ(line.exit_code, 0);
  EXPECT_EQ(line.text, "espalier 1.2.3\n");
}

TEST_F(OptionsTest, NoCommandShowsTheCommands) {
  const auto line = parse({});
  EXPECT_EQ(line.exit_code, 2);
  EXPECT_THAT(line.text, AllOf(HasSubstr("serve"), HasSubstr("inspect")));
}

}  // namespace
}  // namespace espalier::commands
