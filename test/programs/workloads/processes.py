# SPDX-License-Identifier: MIT
# Nothing in what it prints depends on time, order or addresses.
import concurrent.futures
import hashlib
import multiprocessing
import os
import subprocess
import sys
import threading
from multiprocessing import shared_memory


def work(seed):
    table = {}
    for i in range(600):
        key = hashlib.sha256(f"{seed}-{i}".encode()).hexdigest()
        table[key[:i % 20 + 2]] = [key] * (i % 9) + [i, "x" * (i * 97 % 9000)]
    large = bytearray(b"%d" % seed) * 150000
    large[len(large) // 2:] = large[:len(large) // 2]
    return hashlib.sha256(repr(sorted(table.items(), key=str)).encode() + large).hexdigest()


def exchange(queue, answers):
    for seed, data in iter(queue.get, None):
        answers.put((seed, hashlib.sha256(data).hexdigest()))


def fill(name, number, size, lock, counter):
    block = shared_memory.SharedMemory(name)
    block.buf[number * size:(number + 1) * size] = bytes([number + 1]) * size
    block.close()
    for _ in range(200):
        with lock:
            counter.value += number


def pools(method):
    context = multiprocessing.get_context(method)
    with context.Pool(3) as pool:
        print(method, *pool.map(work, range(4)), *pool.imap(work, range(4, 6)))
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        print(method, *executor.map(work, range(6, 8)))
    queue, answers = context.Queue(), context.Queue()
    processes = [context.Process(target=exchange, args=(queue, answers)) for _ in range(2)]
    for process in processes:
        process.start()
    for seed in range(12):
        queue.put((seed, bytes([seed]) * (seed * 40000)))
    print(method, *sorted(answers.get() for _ in range(12)))
    for _ in processes:
        queue.put(None)
    for process in processes:
        process.join()
        print(method, "ended", process.exitcode)
    block, lock, counter = shared_memory.SharedMemory(create=True, size=1 << 20), context.Lock(), context.Value("l", 0, lock=False)
    processes = [context.Process(target=fill, args=(block.name, n, 1 << 18, lock, counter)) for n in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print(method, hashlib.sha256(block.buf).hexdigest(), counter.value)
    block.close()
    block.unlink()
    with context.Manager() as manager:
        shared = manager.dict({"list": list(range(1000))})
        print(method, len(shared["list"]), sum(manager.list(range(500))))


def forks_beside_threads():
    """Threads that allocate while others fork and start programs."""
    stop, said = threading.Event(), [None] * 12

    def churn():
        kept = []
        while not stop.is_set():
            kept.append(bytearray(len(kept) * 3001 % 300000))
            if len(kept) > 50:
                del kept[::2]

    def start(number):
        if number % 2:
            done = subprocess.run(["sh", "-c", f"seq {number} 9999 | cksum"], capture_output=True, check=True)
            said[number] = done.stdout.decode().strip()
        else:
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.write(write, work(number).encode())
                os._exit(0)
            os.close(write)
            said[number] = os.read(read, 100).decode()
            os.close(read)
            os.waitpid(pid, 0)

    churning = [threading.Thread(target=churn) for _ in range(3)]
    starting = [threading.Thread(target=start, args=(n,)) for n in range(12)]
    for thread in churning + starting:
        thread.start()
    for thread in starting:
        thread.join()
    stop.set()
    for thread in churning:
        thread.join()
    print("forks", *said)


def numbers():
    """Whole numbers, and of others what does not depend on the order of sums (which may follow the alignment of blocks)."""
    try:
        import numpy  # here, and not in every process that is spawned
    except ImportError:
        print("no numpy")
        return
    generator = numpy.random.default_rng(7)
    whole = generator.integers(0, 1 << 20, 300_000)
    print("sort", hashlib.sha256(numpy.sort(whole).tobytes()).hexdigest(), whole.sum(), numpy.unique(whole % 997).size)
    left = generator.integers(0, 100, (200, 200)).astype(float)
    print("product", hashlib.sha256((left @ left.T).tobytes()).hexdigest())
    print("elements", hashlib.sha256(numpy.sqrt(whole * 2.0 + 1).tobytes()).hexdigest())
    spectrum = numpy.fft.rfft(whole[:1 << 16].astype(float))
    print("back", numpy.rint(numpy.fft.irfft(spectrum)).astype(int).sum() == whole[:1 << 16].sum())
    solved = numpy.linalg.solve(left + numpy.eye(200) * 9000, numpy.ones(200))
    print("solved", numpy.round(solved, 8).sum().round(4))
    grown = numpy.empty(0, dtype=numpy.int64)
    for n in range(40):
        grown = numpy.concatenate([grown, numpy.arange(n * 1000)])
    print("grown", hashlib.sha256(grown.tobytes()).hexdigest())
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        print("threads", *pool.map(lambda n: int(numpy.sort(whole[::-1] * n % 65537)[150_000]), range(1, 9)))


if __name__ == "__main__":
    numbers()
    forks_beside_threads()
    for way in ("fork", "spawn", "forkserver"):
        pools(way)
    sys.stdout.flush()
