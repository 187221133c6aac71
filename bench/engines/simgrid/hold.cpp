// The hold model in SimGrid: an actor for each entity, which sleeps. rust/src/lib.rs says what all engines share.

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <simgrid/s4u.hpp>
#include <string>

namespace {

constexpr double mean_ns = 1e9;
std::uint64_t events = 0;
std::uint64_t sum = 0;

// Times are whole numbers: SimGrid's seconds stand for nanoseconds.
void entity(std::uint64_t key) {
    while (true) {
        const auto now = static_cast<std::uint64_t>(simgrid::s4u::Engine::get_clock());
        const std::uint64_t mixed = (now ^ key) * 0xbf58476d1ce4e5b9;
        const std::uint64_t draw = (mixed ^ (mixed >> 32)) * 0x94d049bb133111eb;
        events += 1;
        sum += draw;
        const double even = (static_cast<double>(draw >> 11) + 0.5) * (1.0 / static_cast<double>(1ULL << 53));
        simgrid::s4u::this_actor::sleep_for(1.0 + std::floor(-std::log(even) * mean_ns));
    }
}

std::int64_t computed_ns() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

} // namespace

int main(int argc, char** argv) {
    simgrid::s4u::Engine engine(&argc, argv);
    if (argc != 4) {
        std::fputs("type ENTITIES EVENTS REPEATS\n", stderr);
        return 2;
    }
    const std::uint64_t entities = std::strtoull(argv[1], nullptr, 10);
    const std::uint64_t wanted = std::strtoull(argv[2], nullptr, 10);
    const std::uint64_t repeats = std::strtoull(argv[3], nullptr, 10);
    auto* zone = simgrid::s4u::create_full_zone("zone");
    auto* host = zone->create_host("host", 1e9);
    zone->seal();
    for (std::uint64_t number = 0; number < entities; ++number) {
        simgrid::s4u::Actor::create("entity", host, [key = number * 0x9e3779b97f4a7c15] { entity(key); });
    }
    const auto span = [&](std::uint64_t count) {
        return std::floor(static_cast<double>(count) * mean_ns / static_cast<double>(entities));
    };
    double moment = span(entities < 20000 ? 20000 : entities);
    engine.run_until(moment - 1);
    std::string timed;
    for (std::uint64_t repeat = 0; repeat < repeats; ++repeat) {
        moment += span(wanted);
        const std::uint64_t before = events;
        const auto start = std::chrono::steady_clock::now();
        const auto computed = computed_ns();
        engine.run_until(moment - 1);
        const auto ns = computed_ns() - computed;
        const std::chrono::nanoseconds wall = std::chrono::steady_clock::now() - start;
        timed += (repeat ? ", " : "") + std::string("{\"events\": ") + std::to_string(events - before) +
                 ", \"ns\": " + std::to_string(ns) + ", \"wall_ns\": " + std::to_string(wall.count()) + "}";
    }
    std::printf("{\"engine\": \"simgrid\", \"events\": %llu, \"sum\": \"%016llx\", \"repeats\": [%s]}\n",
                static_cast<unsigned long long>(events), static_cast<unsigned long long>(sum), timed.c_str());
    std::fflush(stdout);
    // The actors never end, and destroying them all is not what is measured.
    std::_Exit(0);
}
