#include "core/check.h"
#include "data/labelled_rows.h"
#include "data/sequence_datasets.h"
#include "data/sequence_file.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::message_of;
using testing::TemporaryFolder;
using testing::write_bytes;

namespace {

using Fields = std::vector<std::string>;

Rows csv(const std::vector<std::string>& lines, bool header = false) {
  return parse_csv(lines, "t.csv", header);
}

std::string csv_message(const std::vector<std::string>& lines) {
  return message_of<Error>([&] { csv(lines); });
}

std::vector<std::string> samples(const std::string& path) {
  const SequenceFile file = SequenceFile::open(path);
  const auto split = file.split("train");
  std::vector<std::string> out;
  for (int64_t i = 0; i < split->size(); ++i) {
    std::string sample = file.tokenizer().decode(split->first.document(i));
    if (split->has_second()) sample += " > " + file.tokenizer().decode(split->second.document(i));
    const auto label = static_cast<size_t>(split->labels[static_cast<size_t>(i)]);
    out.push_back(sample + " | " + file.classes()[label]);
  }
  return out;
}

SequenceBuildOptions into(const TemporaryFolder& folder, const std::string& input) {
  SequenceBuildOptions options;
  options.out = folder.file("out.h5");
  options.split = {0, 0, 1};
  options.input = {input};
  return options;
}

}  // namespace

TEST_CASE("CSV: quotes, doubled quotes, commas and line ends in fields") {
  const Rows rows =
      csv({"\"3\",\"a \"\"big\"\" one\",\"x, y\"", "", "1,plain,", "2,\"two", "", "lines\",\"\""});
  REQUIRE(rows.rows.size() == 3);
  CHECK(rows.rows[0].fields == Fields{"3", "a \"big\" one", "x, y"});
  CHECK(rows.rows[1].fields == Fields{"1", "plain", ""});
  CHECK(rows.rows[1].line == 3);
  CHECK(rows.rows[2].fields == Fields{"2", "two\n\nlines", ""});
  CHECK(rows.rows[2].line == 4);
  const Rows named = csv({"label,text", "a,b"}, true);
  CHECK(named.columns == Fields{"label", "text"});
  REQUIRE(named.rows.size() == 1);
  CHECK(csv({}).rows.empty());
}

TEST_CASE("CSV: what is not RFC 4180 is named with its line") {
  CHECK(csv_message({"a,b", "c,\"open", "x"}).find("t.csv:2: a quote is opened and never") == 0);
  CHECK(csv_message({"a,b\"c"}).find("t.csv:1: a quote in a field") == 0);
  CHECK(csv_message({"a,\"b\"c"}).find("t.csv:1: text behind a closing quote") == 0);
  CHECK(csv_message({"a,b", "", "c"}).find("t.csv:3: 1 fields, expected 2 as in line 1") == 0);
}

TEST_CASE("TSV and JSON lines") {
  const Rows tsv = parse_tsv({"a\tb \"q\"\t", "c\t\td"}, "t.tsv", false);
  CHECK(tsv.rows[0].fields == Fields{"a", "b \"q\"", ""});
  CHECK(tsv.rows[1].fields == Fields{"c", "", "d"});
  CHECK_THROWS_AS(parse_tsv({"a\tb", "c"}, "t.tsv", false), Error);
  const Rows json = parse_json_lines({"{\"text\": \"a\\nb\", \"label\": 3}", "",
                                      "{\"label\": true, \"text\": \"c\", \"more\": []}"},
                                     "t.jsonl", {"label", "text"});
  CHECK(json.rows[0].fields == Fields{"3", "a\nb"});
  CHECK(json.rows[1].fields == Fields{"true", "c"});
  const auto message = [](const char* line) {
    return message_of<Error>([&] { parse_json_lines({"", line}, "t.jsonl", {"text"}); });
  };
  CHECK(message("{\"text\": ").find("t.jsonl:2: not a JSON object") == 0);
  CHECK(message("{\"label\": 1}").find("t.jsonl:2: no 'text'") == 0);
  CHECK(message("{\"text\": null}").find("t.jsonl:2: 'text' is neither") == 0);
}

TEST_CASE("AG News's layout: class, title and description") {
  TemporaryFolder folder;
  const std::string path = folder.file("train.csv");
  write_bytes(
      path, "\"10\",\"Title\",\"Some, text\"\r\n\"9\",\"\",\"Alone\"\r\n\r\n\"10\",\"\",\"\"\r\n");
  const auto options = into(folder, path);
  const DatasetSummary summary = build_labelled_text({}, options);
  CHECK(samples(options.out) == Fields{"Title Some, text | 10", "Alone | 9"});
  CHECK(SequenceFile::open(options.out).classes() == Fields{"9", "10"});  // in numerical order
  CHECK(summary.facts[0].second == 1);                                    // no text
  CHECK(summary.text.empty_lines == 1);
}

TEST_CASE("Columns by number and by name; a second text") {
  TemporaryFolder folder;
  const std::string tsv = folder.file("a.tsv"), json = folder.file("a.jsonl");
  write_bytes(tsv, "one\ttwo\tgood\nthree\tfour\tbad\n");
  auto options = into(folder, tsv);
  build_labelled_text({.label = "3", .texts = {"2"}, .second = "1"}, options);
  CHECK(samples(options.out) == Fields{"two > one | good", "four > three | bad"});
  write_bytes(tsv, "id\tbody\tclass\n7\ttext\tgood\n8\tother\tbad\n");
  build_labelled_text({.label = "class", .texts = {"body"}, .header = true}, options);
  CHECK(samples(options.out) == Fields{"text | good", "other | bad"});
  options.input = {json};
  write_bytes(json, "{\"label\": 1, \"text\": \"b\"}\n{\"text\": \"a\", \"label\": 0}\n");
  build_labelled_text({}, options);
  CHECK(samples(options.out) == Fields{"b | 1", "a | 0"});
  write_bytes(json,
              "{\"y\": \"u\", \"a\": \"1\", \"b\": \"2\", \"c\": \"3\"}\n"
              "{\"y\": \"v\", \"a\": \"4\", \"b\": \"5\", \"c\": \"6\"}\n");
  build_labelled_text({.label = "y", .texts = {"b", "a"}, .second = "c"}, options);
  CHECK(samples(options.out) == Fields{"2 1 > 3 | u", "5 4 > 6 | v"});
}

TEST_CASE("Bad labelled texts are errors of one line") {
  TemporaryFolder folder;
  const std::string path = folder.file("t.csv");
  const auto message = [&](const std::string& bytes, const LabelledTextOptions& layout = {}) {
    write_bytes(path, bytes);
    return message_of<Error>([&] { build_labelled_text(layout, into(folder, path)); });
  };
  CHECK(message("1,a\n\xFF,b\n").find("(line 2)") != std::string::npos);
  CHECK(message("1,a\n,b\n").find(path + ":2: an empty label") == 0);
  CHECK(message("1,a\n", {.label = "3"}).find("no column '3'; expected a number from 1 to 2") !=
        std::string::npos);
  CHECK(message("1,a\n", {.label = "class"}).find("no column 'class'") != std::string::npos);
  CHECK(message("1\n").find("no column of text") != std::string::npos);
  CHECK(message("").find("no sample") != std::string::npos);
  std::string many;
  for (int i = 0; i < 10001; ++i) many += std::to_string(i) + ",x\n";
  CHECK(message(many).find("10001 different labels") != std::string::npos);
  auto options = into(folder, folder.file("t.txt"));
  write_bytes(folder.file("t.txt"), "1,a\n");
  CHECK(message_of<Error>([&] { build_labelled_text({}, options); }).find("its form is unknown") !=
        std::string::npos);
  CHECK(!std::filesystem::exists(options.out));
}

TEST_CASE("A header that was not announced is refused, a first row that is none is not") {
  TemporaryFolder folder;
  const std::string path = folder.file("t.csv");
  const auto message = [&](const std::string& bytes, const LabelledTextOptions& layout = {}) {
    write_bytes(path, bytes);
    return message_of<Error>([&] { build_labelled_text(layout, into(folder, path)); });
  };
  const std::string rows = "1,a,b\n2,c,d\n1,e,f\n";
  CHECK(message("Class Index,Title,Description\n" + rows) ==
        path +
            ": line 1 looks like a header: its label 'Class Index' occurs nowhere else; pass "
            "--header");
  CHECK(message("rating,title,text\n" + rows).find("its label 'rating'") != std::string::npos);
  CHECK(message(" Label ,title\npos,a\nneg,b\n").find("its label 'Label'") != std::string::npos);
  CHECK(message("title,category\na,pos\nb,neg\n", {.label = "2"}).find("--header") !=
        std::string::npos);
  CHECK(message("Class Index,Title,Description\n" + rows, {.header = true}).empty());
  CHECK(samples(folder.file("out.h5")) == Fields{"a b | 1", "c d | 2", "e f | 1"});
  CHECK(message(rows).empty());
  CHECK(message("other,a\n1,b\n").empty());                             // too few to tell
  CHECK(message("pos,a\nneg,b\nneg,c\n").empty());                      // a class of one row
  CHECK(message("other,a\n1,b\n2,c\nother,d\n").empty());               // it occurs again
  CHECK(message("class,we met in class every day\nhome,x\n").empty());  // a text, no name
  CHECK(message("other,we met in class every day\n1,x\n2,y\n").empty());
  CHECK(message(rows, {.label = "class"}).find("--header") != std::string::npos);
}

TEST_CASE("Labels are trimmed; those that cannot be classes are refused or warned of") {
  TemporaryFolder folder;
  const std::string path = folder.file("t.csv"), val = folder.file("v.csv");
  auto options = into(folder, path);
  const auto message = [&](const std::string& bytes, const LabelledTextOptions& layout = {}) {
    write_bytes(path, bytes);
    return message_of<Error>([&] { build_labelled_text(layout, options); });
  };
  const std::string six = "pos,a\n\" pos\",b\npos ,c\nneg,d\nneg,e\nneg,f\n";
  write_bytes(path, six);
  CHECK(build_labelled_text({}, options).warnings.empty());
  CHECK(SequenceFile::open(options.out).classes() == Fields{"neg", "pos"});
  CHECK(message("pos,a\n \t,b\n").find(path + ":2: an empty label") == 0);
  CHECK(message("pos,a\npos,b\n").find(path + ": every row has the label 'pos'") !=
        std::string::npos);
  CHECK(message(six, {.texts = {"1"}}).find("also one of the text") != std::string::npos);
  CHECK(message(six, {.texts = {"2"}, .second = "1"}).find("also one of the text") !=
        std::string::npos);
  const std::string json = folder.file("t.jsonl");
  write_bytes(json, "{\"label\": 1, \"text\": \"a\"}\n");
  CHECK(message_of<Error>([&] {
          build_labelled_text({.texts = {"label"}}, into(folder, json));
        }).find("also one of the text") != std::string::npos);
  CHECK(message_of<Error>([&] {
          build_labelled_text({.header = true}, into(folder, json));
        }).find("--header is for .csv and .tsv") != std::string::npos);

  write_bytes(path, "a a,pos\nb b,neg\nc c,pos\nd d,neg\n");  // the wrong column
  const auto many = build_labelled_text({}, options).warnings;
  REQUIRE(many.size() == 1);
  CHECK(many[0].find("4 different labels in 4 rows") == 0);

  write_bytes(path, six);
  write_bytes(val, "odd,g\nodd,h\nneg,i\n");
  options.val_input = {val};
  const auto unseen = build_labelled_text({}, options).warnings;
  REQUIRE(unseen.size() == 1);
  CHECK(unseen[0] == "1 of 3 classes have no training sample: 'odd' (2 in val, 0 in test)");
}
