// SPDX-License-Identifier: MIT
//
// A service that parses JSON with RapidJSON's reader into std::pmr containers and answers with
// JSON:
//     json_service RESOURCE REQUEST [ROUNDS]
// RESOURCE is new (std::pmr::new_delete_resource: preload an allocator), monotonic or pagewise.
// REQUEST is document (one order book of about 300 KB, from which the answer is made) or bulk (400
// orders, each parsed, checked, added up and dropped). Prints: NANOSECONDS-OF-CPU a request
// (median), lowest, PEAK-BYTES of physical memory above what was there before, a sum of the
// answers.
#include <pagewise_resource.hpp>

#include <rapidjson/reader.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <memory_resource>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace {

// --- a document on a memory resource ----------------------------------------------

struct value;
using text = std::pmr::string;
using list = std::pmr::vector<value>;
using table = std::pmr::map<text, value, std::less<>>;

struct value {
    std::variant<std::nullptr_t, bool, double, text, list, table> is;
};

// RapidJSON calls these as it reads.
class builder : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, builder> {
  public:
    explicit builder(std::pmr::memory_resource *memory) : memory_(memory), open_(memory) {
    }
    bool Null() {
        return add({nullptr});
    }
    bool Bool(bool is) {
        return add({is});
    }
    bool Int(int number) {
        return add({double(number)});
    }
    bool Uint(unsigned number) {
        return add({double(number)});
    }
    bool Int64(std::int64_t number) {
        return add({double(number)});
    }
    bool Uint64(std::uint64_t number) {
        return add({double(number)});
    }
    bool Double(double number) {
        return add({number});
    }
    bool String(const char *from, rapidjson::SizeType size, bool) {
        return add({text(from, size, memory_)});
    }
    bool Key(const char *from, rapidjson::SizeType size, bool) {
        open_.back().key.assign(from, size);
        return true;
    }
    bool StartObject() {
        return open({table(memory_)});
    }
    bool EndObject(rapidjson::SizeType) {
        return close();
    }
    bool StartArray() {
        return open({list(memory_)});
    }
    bool EndArray(rapidjson::SizeType) {
        return close();
    }
    value take() {
        return std::move(root_);
    }

  private:
    struct level {
        value container;
        text key;
    };

    bool open(value container) {
        open_.push_back({std::move(container), text(memory_)});
        return true;
    }
    bool close() {
        value done = std::move(open_.back().container);
        open_.pop_back();
        return add(std::move(done));
    }
    bool add(value one) {
        if (open_.empty()) {
            root_ = std::move(one);
        } else if (auto *array = std::get_if<list>(&open_.back().container.is)) {
            array->push_back(std::move(one));
        } else {
            std::get<table>(open_.back().container.is).emplace(open_.back().key, std::move(one));
        }
        return true;
    }

    std::pmr::memory_resource *memory_;
    std::pmr::vector<level> open_;
    value root_;
};

value parse(const char *json, std::pmr::memory_resource *memory) {
    builder into(memory);
    static rapidjson::Reader reader; // its own stack stays over requests
    rapidjson::StringStream stream(json);
    if (!reader.Parse(stream, into)) {
        std::fprintf(stderr, "json_service: the request is not JSON\n");
        std::exit(2);
    }
    return into.take();
}

void append_number(text &out, double number) {
    char digits[32];
    out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

void write(const value &from, text &out) {
    if (const auto *number = std::get_if<double>(&from.is)) {
        append_number(out, *number);
    } else if (const auto *string = std::get_if<text>(&from.is)) {
        out.append(1, '"').append(*string).append(1, '"');
    } else if (const auto *array = std::get_if<list>(&from.is)) {
        char separator = '[';
        for (const value &one : *array) {
            out.append(1, separator);
            write(one, out);
            separator = ',';
        }
        out.append(separator == '[' ? "[]" : "]");
    } else if (const auto *object = std::get_if<table>(&from.is)) {
        char separator = '{';
        for (const auto &[key, one] : *object) {
            out.append(1, separator).append(1, '"').append(key).append("\":");
            write(one, out);
            separator = ',';
        }
        out.append(separator == '{' ? "{}" : "}");
    } else {
        const auto *is = std::get_if<bool>(&from.is);
        out.append(!is ? "null" : *is ? "true" : "false");
    }
}

// --- the service -------------------------------------------------------------------------

const value &field(const value &from, std::string_view name) {
    static const value none;
    const auto *object = std::get_if<table>(&from.is);
    auto found = object ? object->find(name) : table::const_iterator();
    return object && found != object->end() ? found->second : none;
}

double number(const value &from) {
    const auto *is = std::get_if<double>(&from.is);
    return is ? *is : 0;
}

// Revenue and count by customer's city, and the orders that are too large, largest first.
class answer {
  public:
    explicit answer(std::pmr::memory_resource *memory)
        : memory_(memory), cities_(memory), large_(memory) {
    }

    void add(const value &order) {
        double sum = 0;
        for (const value &line : std::get<list>(field(order, "lines").is)) {
            sum += number(field(line, "price")) * number(field(line, "count"));
        }
        const text &city = std::get<text>(field(field(order, "customer"), "city").is);
        auto &[count, revenue] = cities_[city];
        count++;
        revenue += sum;
        if (sum > 4000) {
            large_.emplace_back(sum, std::get<text>(field(order, "id").is));
        }
    }

    text format() {
        std::sort(large_.begin(), large_.end(), std::greater<>());
        value out{table(memory_)};
        auto &top = std::get<table>(out.is);
        list names(memory_);
        for (const auto &[sum, id] : large_) {
            names.push_back({text(id, memory_)});
        }
        top.emplace("large", value{std::move(names)});
        for (const auto &[city, totals] : cities_) {
            table entry(memory_);
            entry.emplace("count", value{double(totals.first)});
            entry.emplace("revenue", value{totals.second});
            top.emplace(city, value{std::move(entry)});
        }
        text json(memory_);
        write(out, json);
        return json;
    }

  private:
    std::pmr::memory_resource *memory_;
    std::pmr::map<text, std::pair<int, double>, std::less<>> cities_;
    std::pmr::vector<std::pair<double, text>> large_;
};

std::uint64_t checksum(const text &json) {
    std::uint64_t sum = 14695981039346656037u;
    for (char c : json) {
        sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211u;
    }
    return sum;
}

using request = std::vector<std::pmr::string>; // documents

std::uint64_t serve(const request &of, std::pmr::memory_resource *memory) {
    answer totals(memory);
    for (const std::pmr::string &json : of) {
        value document = parse(json.c_str(), memory);
        if (const auto *orders = std::get_if<list>(&field(document, "orders").is)) {
            for (const value &order : *orders) {
                totals.add(order);
            }
        } else {
            totals.add(document);
        }
    }
    return checksum(totals.format());
}

// --- requests ---------------------------------------------------------------------------------

// Requests lie in memory of their own: what making them leaves behind is of no use to any
// allocator.
std::pmr::memory_resource *request_memory() {
    static std::vector<char> buffer(8 << 20, 1);
    static std::pmr::monotonic_buffer_resource memory(buffer.data(), buffer.size(),
                                                      std::pmr::null_memory_resource());
    return &memory;
}

void append_order(std::pmr::string &json, unsigned number) {
    static const char *const cities[] = {"Amsterdam", "Berlin", "Copenhagen on the Sound", "Dublin",
                                         "Edinburgh"};
    char part[400];
    std::snprintf(part, sizeof part,
                  R"({"id":"order-2026-000%u","open":true,"customer":{"name":"Customer number %u",)"
                  R"("city":"%s","mail":null},"lines":[)",
                  number, number * 7919 % 1000, cities[number % 5]);
    json += part;
    for (unsigned line = 0; line <= number % 9; line++) {
        std::snprintf(
            part, sizeof part,
            R"(%s{"article":"A-%u","text":"a description of the article, as shops have them",)"
            R"("price":%ue-2,"count":%u,"tags":["new","in stock","sent within two days"]})",
            line ? "," : "", number * 31 + line, (number * 104729u + line) % 90000, 1 + line % 4);
        json += part;
    }
    json += "]}";
}

request make_request(bool bulk) {
    request made;
    std::pmr::string all("{\"orders\":[", request_memory());
    for (unsigned i = 0; i < 400; i++) {
        if (bulk) {
            append_order(made.emplace_back(std::pmr::string(request_memory())), i);
        } else {
            all += i ? "," : "";
            append_order(all, i);
        }
    }
    if (!bulk) {
        made.push_back(std::move(all += "]}"));
    }
    return made;
}

// --- measuring ----------------------------------------------------------------------------------

std::uint64_t cpu_ns() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::uint64_t(now.tv_sec) * 1000000000u + std::uint64_t(now.tv_nsec);
}

std::uint64_t status_bytes(const char *name) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.compare(0, std::strlen(name), name) == 0) {
            return std::strtoull(line.c_str() + std::strlen(name), nullptr, 10) * 1024;
        }
    }
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    std::string kind = argc > 2 ? argv[1] : "", what = argc > 2 ? argv[2] : "";
    unsigned rounds = argc > 3 ? unsigned(std::atoi(argv[3])) : 200;
    if ((kind != "new" && kind != "monotonic" && kind != "pagewise") ||
        (what != "document" && what != "bulk")) {
        std::fprintf(stderr, "usage: json_service new|monotonic|pagewise document|bulk [ROUNDS]\n");
        return 2;
    }
    request of = make_request(what == "bulk");
    std::vector<std::uint64_t> times(rounds + 5);
    std::optional<pagewise::transaction_resource> heap;
    std::vector<char> first_buffer(64 << 10, 1);
    std::ofstream("/proc/self/clear_refs") << 5 << std::flush;
    std::uint64_t before = status_bytes("VmRSS:"), sum = 0;
    for (auto &time : times) {
        std::uint64_t start = cpu_ns();
        if (kind == "pagewise") {
            heap ? void() : void(heap.emplace());
            pagewise::transaction scope(*heap);
            sum += serve(of, &*heap);
        } else if (kind == "monotonic") {
            std::pmr::monotonic_buffer_resource pool(first_buffer.data(), first_buffer.size());
            sum += serve(of, &pool);
        } else {
            sum += serve(of, std::pmr::new_delete_resource());
        }
        time = cpu_ns() - start;
    }
    std::uint64_t peak = status_bytes("VmHWM:");
    std::sort(times.begin() + 5, times.end());
    std::printf("%lu %lu %lu %lu\n", times[5 + rounds / 2], times[5], peak - std::min(before, peak),
                sum);
}
