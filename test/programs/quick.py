# SPDX-License-Identifier: MIT
"""The programs of `make test`, and the test suites of Python and Ruby."""

import glob
import hashlib
import os
import re
import shutil
import signal
import sys
import urllib.request

from catalogue import program
from place import ROOT, Skip, digest, free_port, need, until, wait_for

sys.path[:0] = [os.path.join(ROOT, "test/r")]
import sources  # noqa: E402

# Debian's own, whose release the names of the packages have: python3.11, ruby3.1.
PYTHON_VERSION, RUBY_VERSION = (os.path.basename(os.path.realpath(f"/usr/bin/{name}")) for name in ("python3", "ruby"))


@program("quick", "gcc", "g++")
def gcc(place):
    """This project's core and its C++ header's test, optimised, with debugging information."""
    need("gcc", "gcc")
    core = os.path.join(ROOT, "core")
    said = []
    for source in sorted(glob.glob(os.path.join(core, "src/*/*.c"))):
        target = place.path(os.path.relpath(source, core).replace("/", "-") + ".o")
        place.run("gcc", "-std=c17", "-D_GNU_SOURCE", "-O2", "-g", f"-ffile-prefix-map={place.folder}=.",
                  f"-I{core}/include", f"-I{core}/src", "-c", source, "-o", target)
        said.append(f"{os.path.basename(target)} {digest(target)}")
    if shutil.which("g++"):
        target = place.path("resource.o")
        place.run("g++", "-std=c++17", "-O2", f"-I{core}/include", f"-I{core}/src", "-c",
                  os.path.join(core, "test/test_resource.cpp"), "-o", target)
        said.append(f"resource.o {digest(target)}")
    return "\n".join(said)


@program("quick", "git")
def git(place):
    """Clone, repack, search and compare this repository."""
    need("git", "git")
    here = place.path("clone")
    trust = ("-c", "safe.directory=*", "-c", "gc.auto=0", "-c", "pack.threads=3", "-c", "index.threads=3")
    place.run("git", *trust, "clone", "--quiet", "--no-local", "--bare", "--single-branch", ROOT, here)
    said = []
    for command in (("log", "--stat", "-n", "400"), ("repack", "-adfq", "--depth=20", "--window=20"), ("fsck", "--full"),
                    ("grep", "-n", "malloc", "HEAD"), ("diff", "--stat", "-M", "-C", "HEAD~40", "HEAD"),
                    ("blame", "HEAD", "--", "core/src/process/lock.c"), ("rev-list", "--objects", "HEAD")):
        said.append(place.run("git", *trust, "-C", here, *command))
    return "\n".join(said)


SQL = """
create table t(id integer primary key, a text, b real);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 120000)
  insert into t select x, printf('%08d-%s', x * 7919 % 100003, substr(hex(x * x * x), 1, x % 40)), x / 7.0 from c;
create index i on t(a);
select count(*), min(a), max(a), round(sum(b), 3) from t;
update t set a = a || 'more' where id % 3 = 0;
delete from t where id % 5 = 0;
select a, count(*) from (select substr(a, 1, 3) a from t) group by a order by a;
with recursive r(n, s) as (select 1, 'x' union all select n + 1, s || n from r where n < 400) select length(s) from r;
select group_concat(a, ',') from (select a from t order by a limit 2000);
vacuum; pragma integrity_check;
"""


@program("quick", "sqlite3")
def sqlite3(place):
    need("sqlite3", "sqlite3")
    place.write("script.sql", SQL)
    said = place.run("sqlite3", "data.db", ".read script.sql")
    return said + hashlib.sha256(place.run("sqlite3", "data.db", ".dump").encode()).hexdigest()


REDIS_SCRIPT = """
for i = 1, 20000 do
  redis.call('set', 'string:' .. i, string.rep(tostring(i), i % 50 + 1))
  redis.call('hset', 'hash:' .. i % 500, 'field' .. i, i * 3)
  redis.call('rpush', 'list:' .. i % 300, i)
  redis.call('zadd', 'sorted:' .. i % 200, i % 977, 'member' .. i)
  redis.call('sadd', 'set:' .. i % 100, i * i % 7919)
  if i % 3 == 0 then redis.call('del', 'string:' .. i - 2) end
  if i % 5 == 0 then redis.call('xadd', 'stream:' .. i % 50, i .. '-1', 'a', i, 'b', string.rep('z', i % 300)) end
  if i % 7 == 0 then redis.call('append', 'string:' .. i, string.rep('y', i % 3000)) end
  if i % 9 == 0 then redis.call('pfadd', 'log:' .. i % 20, 'element' .. i % 4001) end
  if i % 11 == 0 then redis.call('setbit', 'bits:' .. i % 10, i * 13 % 400000, 1) end
end
redis.call('zunionstore', 'union', 3, 'sorted:1', 'sorted:2', 'sorted:3')
redis.call('sunionstore', 'sets', 'set:1', 'set:2', 'set:3')
redis.call('bitop', 'xor', 'xored', 'bits:1', 'bits:2')
redis.call('setrange', 'large', 3000000, 'end')
return redis.call('dbsize')
"""


@program("quick", "redis-server", filters=("redis-benchmark's rates: its lines are counted",),
         note="its blocks are of the jemalloc that it is linked with: the default leaves them there")
def redis(place):
    """A deterministic set of data, redis-benchmark beside it, saves and a rewritten log by forked children, starts from
    both."""
    need("redis-server", "redis-server")
    need("redis-benchmark", "redis-tools")
    port = str(free_port())
    settings = ("--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", place.folder, "--daemonize", "no",
                "--io-threads", "3", "--databases", "4", "--enable-debug-command", "local")
    client = ("redis-cli", "-p", port)

    def is_idle():
        words = place.run(*client, "info", "persistence")
        return not re.search(r"(?:rdb_bgsave_in_progress|aof_rewrite_\w+):1", words)

    def contents():
        return place.run(*client, "eval", SUMMARY, "0") + place.run(*client, "debug", "digest")

    with place.server("redis-server", *settings):
        wait_for(int(port))
        said = [place.run(*client, "eval", REDIS_SCRIPT, "0")]
        said.append(place.run(*client, "bgsave"))
        rates = place.run("redis-benchmark", "-p", port, "--dbnum", "2", "-n", "20000", "-q", "-t",
                          "set,get,lpush,lpop,sadd,hset,zadd,mset", "-r", "5000", "-d", "200", "-P", "8", "--threads", "2")
        said.append(re.sub(r"[^\n]*", "", rates).strip())
        place.run(*client, "-n", "2", "flushdb")
        said.append(contents())
        place.run(*client, "memory", "purge")
        until(is_idle, "redis saves")
        said += [place.run(*client, "config", "set", "appendonly", "yes"), place.run(*client, "incr", "counter")]
        until(is_idle, "redis writes its log")
        said += [place.run(*client, "bgrewriteaof"), place.run(*client, "incr", "counter")]
        until(is_idle, "redis writes its log again")
        words = place.run(*client, "info", "persistence")
        said += [place.run(*client, "save"), re.findall(r"(?:status|rewrite_status):\w+", words)]
    for more in ((), ("--appendonly", "yes")):
        with place.server("redis-server", *settings, *more):
            wait_for(int(port))
            until(lambda: "loading:0" in place.run(*client, "info", "persistence"), "redis reads its file")
            said.append(contents())
    return "\n".join(map(str, said))


SUMMARY = """
local keys = redis.call('keys', '*')
table.sort(keys)
local text = ''
for _, key in ipairs(keys) do
  local kind = redis.call('type', key).ok
  local value = ''
  if kind == 'string' then value = redis.call('get', key)
  elseif kind == 'list' then value = table.concat(redis.call('lrange', key, 0, -1), ',')
  elseif kind == 'zset' then value = table.concat(redis.call('zrange', key, 0, -1, 'withscores'), ',')
  elseif kind == 'set' then local all = redis.call('smembers', key); table.sort(all); value = table.concat(all, ',')
  elseif kind == 'hash' then local all = redis.call('hgetall', key); table.sort(all); value = table.concat(all, ',') end
  text = redis.sha1hex(text .. key .. value)
end
return {#keys, text}
"""

NGINX = """
worker_processes 2; daemon off; pid nginx.pid; error_log error.log; {user}
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fast; uwsgi_temp_path uwsgi;
  scgi_temp_path scgi; gzip on; gzip_types *; gzip_min_length 10;
  server {{ listen 127.0.0.1:{port}; root {root}; location /again/ {{ proxy_pass http://127.0.0.1:{port}/; }} }}
}}
"""


@program("quick", "nginx-light")
def nginx(place):
    """Files, compressed and through a proxy, asked for many times, with a reload in the middle."""
    need("nginx", "nginx-light")
    os.makedirs(place.path("files"))
    for number in range(40):
        place.write(f"files/{number}.txt", "".join(f"{number} {line * number}\n" for line in range(number * 137)))
    port = free_port()
    user = "user root;" if os.geteuid() == 0 else ""
    place.write("nginx.conf", NGINX.format(port=port, root=place.path("files"), user=user))
    said = []
    with place.server("nginx", "-p", place.folder, "-c", "nginx.conf", "-e", "error.log") as process:
        wait_for(port)
        for request in range(400):
            if request == 200:
                process.send_signal(signal.SIGHUP)
            path = ("/again/" if request % 3 == 0 else "/") + f"{request * 7 % 40}.txt"
            headers = {"Accept-Encoding": "gzip"} if request % 2 else {}
            with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)) as answer:
                said.append(f"{path} {hashlib.sha256(answer.read()).hexdigest()}")
    return "\n".join(said)


PYTHON = """
import collections, concurrent.futures, hashlib, json, os, pickle, re, sqlite3, sys, threading, zlib
def work(seed):
    table = {}
    for i in range(4000):
        key = hashlib.sha256(f"{seed}-{i}".encode()).hexdigest()
        table[key[:i % 20 + 2]] = [key] * (i % 9) + [i, {"n": i / 7}]
    text = json.dumps(table, sort_keys=True)
    again = pickle.loads(pickle.dumps(json.loads(text)))
    words = collections.Counter(re.findall(r"[a-f]+", text))
    return hashlib.sha256(repr((sorted(again.items(), key=str)[:50], words.most_common(9), len(zlib.compress(text.encode())))).encode()).hexdigest()
with concurrent.futures.ThreadPoolExecutor(6) as pool:
    print(*pool.map(work, range(24)), sep="\\n")
children = []
for n in range(4):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, work(n).encode())
        os._exit(0)
    children.append(read)
print(*(os.read(one, 100).decode() for one in children))
"""


@program("quick", "python3")
def python(place):
    """Threads, forks, and Python's own allocator left out (PYTHONMALLOC=malloc), so that every object is ours."""
    need("python3", "python3")
    script = place.write("work.py", PYTHON)
    said = place.run("/usr/bin/python3", "-E", script)
    place.environment["PYTHONMALLOC"] = "malloc"
    return said + place.run("/usr/bin/python3", script)


# Both digests are loaded before any thread: Ruby loads one at its first use, and a second thread that asks meanwhile
# finds it half made ("Digest::Base cannot be directly inherited"; 38 of 2400 starts of plain Ruby on two loaded cores).
RUBY = """
require 'digest'; require 'json'; require 'set'; require 'socket'; require 'zlib'
Digest::MD5; Digest::SHA256
def work(seed)
  table = {}
  3000.times { |i| k = Digest::SHA256.hexdigest("#{seed}-#{i}"); table[k[0, i % 20 + 2]] = [k] * (i % 9) + [i.to_s * (i % 30), { 'n' => i }] }
  text = JSON.generate(table.sort.to_h)
  again = Marshal.load(Marshal.dump(JSON.parse(text)))
  Digest::SHA256.hexdigest([again.keys.sort.first(50), text.scan(/[a-f]+/).tally.sort_by { |w, n| [-n, w] }.first(9), Zlib::Deflate.deflate(text).size].inspect)
end
puts 16.times.map { |n| Thread.new { work(n) } }.map(&:value)
puts 4.times.map { |n| r, w = IO.pipe; pid = fork { w.write(work(n)); exit!(0) }; w.close; x = r.read; Process.wait(pid); x }
GC.start; GC.compact
puts 8.times.map { |n| Fiber.new { Fiber.yield; work(n) } }.each(&:resume).map(&:resume)
puts (1..30).map { |n| (2**(n * 400)).to_s.hash.zero? ? 0 : Digest::MD5.hexdigest((3**(n * 997)).to_s) }
"""


@program("quick", "ruby")
def ruby(place):
    need("ruby", "ruby")
    return place.run("ruby", "--disable-gems", place.write("work.rb", RUBY))


# Their output is the verdict on each test; times and temporary names differ.
PYTHON_TESTS = ("test_dict test_list test_set test_unicode test_bytes test_bigmem test_array test_buffer test_collections "
                "test_json test_pickle test_re test_gc test_weakref test_threading test_thread test_queue test_fork1 "
                "test_mmap test_memoryview test_zlib test_lzma test_hashlib test_struct "
                "test_ast test_compile test_generators test_descr test_itertools test_functools").split()


@program("long", PYTHON_VERSION, f"lib{PYTHON_VERSION}-testsuite", limit=1800,
         filters=("all but the number of tests, the failed ones and the verdict of each file",))
def python_tests(place):
    """A part of Python's own tests."""
    need(PYTHON_VERSION, PYTHON_VERSION)
    if not os.path.exists(f"/usr/lib/{PYTHON_VERSION}/test/test_dict.py"):
        raise Skip(f"apt-get install lib{PYTHON_VERSION}-testsuite")
    place.environment["PYTHONDONTWRITEBYTECODE"] = "1"
    said = []
    for test in PYTHON_TESTS:
        text = place.run(f"/usr/bin/{PYTHON_VERSION}", "-m", "test", "-v", test, status=None)
        ran = re.findall(r"^Ran (\d+) tests?", text, re.M)
        wrong = sorted(set(re.findall(r"^(?:FAIL|ERROR): (test\w*)", text, re.M)))
        said.append(f"{test}: {ran} {wrong} {re.findall(r'^Result: (.*)$', text, re.M)}")
    return "\n".join(said)


RUBY_TESTS = ("array hash string symbol gc thread thread_queue fiber io marshal regexp struct proc object class module "
              "integer bignum float rational complex range enumerator time process fork objectspace weakmap backtrace "
              "encoding sprintf pack transcode dir file exception method refinement pattern_matching").split()


@program("long", RUBY_VERSION, limit=1800,
         filters=("all but the number of tests and the failed ones of each file",))
def ruby_tests(place):
    """A part of Ruby's own tests, from Debian's source package."""
    need(RUBY_VERSION, "ruby")
    folder, problem = sources.tests_of(RUBY_VERSION, RUBY_VERSION, ("test", "tool"))
    if problem:
        raise Skip(problem)
    said = []
    for test in RUBY_TESTS:
        file = os.path.join(folder, f"test/ruby/test_{test}.rb")
        if not os.path.exists(file):
            continue
        text = place.run(RUBY_VERSION, "-I", os.path.join(folder, "tool/lib"), "-I", os.path.join(folder, "test/lib"),
                         os.path.join(folder, "test/runner.rb"), "-v", file, status=None)
        wrong = sorted(set(re.findall(r"^(Test\w+#test_\w+)(?: \[[^\n]*)?(?::\n|.* = [\d.]+ s = [FE])", text, re.M)))
        total = re.findall(r"^(\d+ tests), \d+ assertions, (\d+ failures, \d+ errors)", text, re.M)
        said.append(f"{test}: {wrong} {total or text[-300:]}")
    return "\n".join(said)
