# Pagewise. `make help` lists the targets; everything is built under build/.

PREFIX  ?= /usr/local
DESTDIR ?=
RUNS    ?= 10
JOBS    ?= $(shell nproc)
CASES   ?=
R_LIBRARY ?=
# bench-r: what to measure, at which size, which parts of it, and for how long.
PART           ?= all
SCALE          ?= small
WORKLOADS      ?=
CONFIGURATIONS ?=
MINUTES        ?=
# test-programs, bench-programs: which programs.
PROGRAMS       ?=
# bench-everyday: which scripts (or tuning, unseen), and how often.
SCRIPTS        ?=
# bench-general: which patterns.
PATTERNS       ?=
ROUNDS         ?= 5
# test: which suites. test-releases: of which releases, which suites besides, and as whom.
SUITES         ?= core cli report r python jvm bench install programs ruby rpkg php kernel lint
RELEASES       ?= bookworm trixie sid
WHO            ?= root

B        := build
# cargo has as many jobs as there are processors, whatever make was told.
CARGO    := MAKEFLAGS= CARGO_TARGET_DIR="$(CURDIR)/$(B)/cargo" scripts/with-cargo
ENSURE   := scripts/ensure-packages
PAGEWISE := $(B)/bin/pagewise

.DEFAULT_GOAL := build
# All targets that have a line of help, and those that they need.
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*\#\# .*/\1/p' $(firstword $(MAKEFILE_LIST))) core cli packages-build

help: ## list the targets
	@echo "Pagewise: run unmodified programs in less physical memory, and prove it."
	@echo
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  PREFIX=$(PREFIX)  DESTDIR=$(DESTDIR)  RUNS=$(RUNS) (pairs a benchmark case)  JOBS=$(JOBS)"
	@echo "  CASES='name ...' limits bench-foundation to these cases"
	@echo "  bench-r: PART=$(PART) (or benchmarks table5 figure11 calls report)  SCALE=$(SCALE) (or full)  MINUTES=limit"
	@echo "           WORKLOADS=lda,...  CONFIGURATIONS=plain,auto,...  RUNS=rounds in all; Ctrl-C and the same again goes on"
	@echo "  bench-python-sharing: WAYS='pagewise joblib ...'  SIZE=MB (1000)  TORCH=1  ROUNDS=$(ROUNDS)"
	@echo "  bench-everyday: SCRIPTS='caret ...' (or tuning, unseen)  ROUNDS=$(ROUNDS)  CONFIGURATIONS='auto NAME=OPTIONS ...'"

build: core cli ## build build/bin/pagewise and build/lib/libpagewise*.so (the default)

packages-build:
	@$(ENSURE) build

core: packages-build
	@scripts/configure-core $(B)/core
	@cmake --build $(B)/core --parallel $(JOBS)

cli: packages-build
	@scripts/ensure-crates
	@$(CARGO) build --quiet --release --locked --package pagewise-cli
	@install -D -m 755 $(B)/cargo/release/pagewise $(PAGEWISE)

jvm: ## build build/lib/pagewise-jvm-recorder.jar, for pagewise trace record --jvm
	@$(ENSURE) build jvm
	@scripts/build-jvm $(B)

php: ## build build/lib/php/pagewise.so, the PHP extension (make build does, where php8.2-dev or php8.4-dev is)
	@$(ENSURE) build php
	@scripts/php-version >/dev/null || { echo "make php: the extension is for PHP 8.2 and 8.4 (Debian 12 and 13), which this system has not. Nothing was built." >&2; exit 1; }
	@scripts/configure-core $(B)/core
	@cmake --build $(B)/core --parallel $(JOBS) --target pagewise-php

run: ## build, then compare examples/analysis.R plain and under Pagewise
	@scripts/ensure-folder
	@$(ENSURE) build run
	@$(MAKE) --no-print-directory -j2 build
	$(PAGEWISE) compare --runs 5 -- Rscript examples/analysis.R

test: ## build, then run every test suite (a subset of R's own tests)
	@scripts/ensure-folder
	@$(ENSURE) build jvm run php test
	@$(MAKE) --no-print-directory -j3 build jvm
	@JOBS=$(JOBS) scripts/test-all $(SUITES)

test-php-suite: ## PHP's own Zend/tests with the extension and without, and memory refused at twenty limits (half an hour)
	@$(ENSURE) php
	@$(MAKE) --no-print-directory php
	@php/tests/suite
	@php/tests/refused/run

test-r: ## all of R's regression tests and package examples, plain against Pagewise
	@$(ENSURE) build run test
	@$(MAKE) --no-print-directory build
	@test/r/run

test-python-libraries: ## NumPy's, pandas' and scikit-learn's own tests, plain and with everything shared (hours; PARTS=--subset: minutes; MINUTES= for each part)
	@$(ENSURE) build run bench-python
	@$(MAKE) --no-print-directory core
	@test/python/run $(if $(MINUTES),--minutes $(MINUTES)) $(PARTS)

test-wheel: ## the wheel in a clean environment of each Python from 3.9 on that is found (PYTHONS="python3.9 python3.13t": these)
	@$(ENSURE) build run
	@$(MAKE) --no-print-directory build
	@test/python/wheel $(PYTHONS)

test-everyday: ## twenty everyday R scripts with frozen packages, checked at each collection, against plain R (an hour)
	@$(ENSURE) build run bench-everyday
	@$(MAKE) --no-print-directory build
	@test/everyday/run $(SCRIPTS)

test-programs: ## other programs and the tests of Python and Ruby, with Pagewise in three configurations
	@$(ENSURE) build test programs
	@$(MAKE) --no-print-directory build
	@test/programs/run --all $(PROGRAMS)

bench-programs: ## postgres, chromium, java and others RUNS times as plain, into docs/results/programs.md (resumable)
	@$(ENSURE) build bench-programs
	@$(MAKE) --no-print-directory build
	@test/programs/run --runs $(RUNS) --report $(if $(CONFIGURATIONS),--configurations $(CONFIGURATIONS)) $(PROGRAMS)

test-sanitize: ## the core's tests under ASan with UBSan, and under TSan
	@$(ENSURE) build test
	@JOBS=$(JOBS) scripts/test-all core-asan core-tsan

test-contract: core ## what malloc promises, case by case, in every way of having Pagewise
	@ctest --test-dir $(B)/core --output-on-failure --parallel $(JOBS) -L contract

test-hostile: core ## hostile programs beside a model, for MINUTES (10); FIRST_SEED=N goes on from there
	@core/test/hostile/run --build $(B)/core/core/test/hostile --libraries $(B)/lib \
	    --minutes $(or $(MINUTES),10) --first-seed $(or $(FIRST_SEED),1) $(if $(WAYS),--ways $(WAYS)) $(if $(MACHINE),--machine)

test-releases: ## make run, and the SUITES that are named (or all), on bare releases of Debian, as WHO: root, user or both (root)
	@test/releases/run --as $(WHO) $(RELEASES) $(if $(filter-out file,$(origin SUITES)),--suites $(SUITES))

test-aarch64: ## build the core, the command and the trace's crates for aarch64, and run their tests under qemu-user (TESTS=REGEX)
	@$(ENSURE) build aarch64
	@scripts/ensure-crates
	@JOBS=$(JOBS) test/aarch64/run $(if $(TESTS),--tests '$(TESTS)')

test-kernels: core ## the core's tests by Debian's stock kernels, 6.1 to the newest, in a virtual machine (RELEASES=bookworm, TESTS=REGEX)
	@$(ENSURE) build test kernels
	@test/kernels/run $(RELEASES) $(if $(TESTS),--tests '$(TESTS)')

test-aarch64-vm: ## the core's tests in an emulated aarch64 machine, with pages of 4, 16 and 64 KB (PAGES="4 64": these; TESTS=REGEX)
	@$(ENSURE) build aarch64-vm
	@JOBS=$(JOBS) test/aarch64/vm $(foreach pages,$(PAGES),--pages $(pages)) $(if $(TESTS),--tests '$(TESTS)')

test-java-21: ## the tests of recorded JVMs with Java 21, which is fetched from PyPI
	@$(ENSURE) build jvm
	@$(MAKE) --no-print-directory jvm
	@scripts/test-java-21

test-metrics: core ## pagewise metrics, scraped by Debian's prometheus (which make test skips where it is not installed)
	@$(ENSURE) build metrics
	@scripts/ensure-crates
	@$(CARGO) test --quiet --locked --package pagewise-cli --test metrics

test-pprof-consumers: ## profiles of traces in pprof, speedscope and what Pyroscope and Parca read them with
	@scripts/test-pprof-consumers

bench-hostile: core ## STEPS (1e8) of hostile programs, into docs/results/hostile.md (resumable; MACHINE=1: KSM and swap, root)
	@core/test/hostile/long --build $(B)/core/core/test/hostile --libraries $(B)/lib --page docs/results/hostile.md \
	    --steps $(or $(STEPS),1e8) --minutes $(or $(MINUTES),120) $(if $(MACHINE),--machine)

site: ## a web site of the documents, into build/site (builds mdBook first, some minutes)
	@$(ENSURE) build site
	@[ -x $(B)/mdbook/bin/mdbook ] || $(CARGO) install --quiet --locked --root $(B)/mdbook mdbook@0.4.52
	@scripts/site

test-site: site ## each link of that site leads somewhere
	@$(ENSURE) test-site
	@scripts/test-site

test-kernel: ## build kernels with mmapcopy(2) and test them in a virtual machine (kernel/README.md)
	@kernel/run test

bench-foundation: ## the foundation's figures, into docs/results/foundation.md
	@$(ENSURE) build run bench
	@$(MAKE) --no-print-directory build
	@bench/foundation/run --runs $(RUNS) $(CASES)

bench-r: ## the two R papers' tables and figures, into docs/results/r.md (resumable)
	@$(ENSURE) build run bench-r
	@$(MAKE) --no-print-directory build
	@bench/r/run $(PART) --scale $(SCALE) --rounds $(RUNS) --workloads "$(WORKLOADS)" --configurations "$(CONFIGURATIONS)" \
	    $(if $(MINUTES),--time-limit $(MINUTES))

bench-everyday: ## twenty everyday R scripts, plain against Pagewise, into docs/results/everyday.md (resumable)
	@$(ENSURE) build run bench-everyday
	@$(MAKE) --no-print-directory build
	@bench/everyday/run --scripts "$(SCRIPTS)" --rounds $(ROUNDS) --configurations "$(CONFIGURATIONS)" \
	    $(if $(MINUTES),--time-limit $(MINUTES))

bench-general: ## policy general beside glibc, jemalloc, mimalloc and tcmalloc, into docs/results/general.md (resumable)
	@$(ENSURE) build run bench-replay
	@$(MAKE) --no-print-directory build
	@bench/general/run --patterns "$(PATTERNS)" --rounds $(ROUNDS) $(if $(MINUTES),--time-limit $(MINUTES))

bench-python: ## programs of NumPy, pandas and scikit-learn, plain against Pagewise, into docs/results/python.md (resumable)
	@$(ENSURE) build run bench-python
	@$(MAKE) --no-print-directory build
	@bench/python/run --programs "$(PROGRAMS)" --rounds $(ROUNDS) --configurations "$(CONFIGURATIONS)" \
	    $(if $(MINUTES),--time-limit $(MINUTES))

bench-python-sharing: ## pagewise.share() beside SharedMemory, joblib, torch (TORCH=1) and pickling, into docs/results/python-sharing.md (resumable)
	@$(ENSURE) build run bench-python
	@$(MAKE) --no-print-directory core
	@bench/python/sharing --ways "$(WAYS)" --rounds $(ROUNDS) $(if $(SIZE),--megabytes $(SIZE)) $(if $(TORCH),--torch)

bench-beside-threads: ## what threads of R's packages cost in sharing, into docs/results/beside-threads.md
	@$(ENSURE) build run bench-beside-threads
	@$(MAKE) --no-print-directory core
	@bench/beside-threads/run

bench-frozen: ## what a frozen heap saves R's collections, into docs/results/frozen.md
	@$(ENSURE) build run bench-frozen
	@$(MAKE) --no-print-directory core
	@bench/frozen/run $(if $(RUNS),--runs $(RUNS))

bench-workers: core ## memory of R workers forked from one parent, plain and frozen, into docs/results/workers.md
	@$(ENSURE) run bench-workers
	@scripts/install-r "$(CURDIR)/$(B)/r-library" >/dev/null
	@bench/workers/run $(if $(filter-out file,$(origin ROUNDS)),--rounds $(ROUNDS))

bench-together: ## two and four R programs at once under one memory limit, into docs/results/together.md (root)
	@$(ENSURE) build run bench
	@$(MAKE) --no-print-directory build
	@bench/together/run $(if $(filter-out file,$(origin ROUNDS)),--rounds $(ROUNDS))

bench-mutants: core ## each rule of the core broken: the test that notices, the generator's time, into docs/results/mutants.md (resumable)
	@core/test/hostile/mutants --hostile $(or $(MINUTES),10) --write docs/results/mutants.md $(NAMES)

bench-r-share: core ## objects shared between R processes, into docs/results/r-share.md
	@$(ENSURE) run bench
	@scripts/install-r "$(CURDIR)/$(B)/r-library" >/dev/null
	@bench/share-r/run --rounds $(RUNS)

bench-trace: ## what recording traces costs redis, ruby, SQLite, pandas and deep recursion, beside heaptrack, into docs/results/trace-overhead.md
	@$(ENSURE) build bench-trace
	@$(MAKE) --no-print-directory build
	@bench/trace/overhead --runs $(RUNS)

bench-kernel: ## mmapcopy(2), fork, memcpy and mappings, in a virtual machine, into docs/results/mmapcopy.md
	@kernel/run bench

bench-kernel-r: ## R on a kernel with mmapcopy(2), in a virtual machine, into docs/results/mmapcopy-r.md
	@$(ENSURE) build run
	@$(MAKE) --no-print-directory build
	@kernel/run bench-r

bench-transaction: ## the transaction heap against other allocators, into docs/results/transaction.md
	@$(ENSURE) build bench-transaction
	@$(MAKE) --no-print-directory build
	@bench/transaction/run --runs $(RUNS)

bench-replay: ## real servers' traces in five allocators and in learned groups, into docs/results/replay.md (resumable)
	@$(ENSURE) build bench-replay
	@$(MAKE) --no-print-directory build
	@bench/replay/run

record-jvm-workloads: ## record the seven Java workloads of the Metis paper, into build/metis/
	@$(ENSURE) build jvm bench-metis
	@$(MAKE) --no-print-directory build jvm
	@bench/metis/record

bench-metis: ## the Metis paper's table and figures on seven Java workloads, into docs/results/metis.md (resumable)
	@$(ENSURE) build bench-metis
	@$(MAKE) --no-print-directory build
	@if ! ls build/metis/*.trace >/dev/null 2>&1; then $(MAKE) --no-print-directory record-jvm-workloads; fi
	@bench/metis/run --workloads "$(WORKLOADS)" $(if $(SEEDS),--seeds $(SEEDS))

bench-php: ## real PHP applications on each allocator, into docs/results/php.md (resumable; hours)
	@$(ENSURE) build bench-php
	@$(MAKE) --no-print-directory php
	@bench/php/run sizes
	@bench/php/run serve --rounds $(RUNS) $(if $(MINUTES),--time-limit $(MINUTES))
	@bench/php/run serve --rounds 1 --requests 10000 --configurations "native;transaction" $(if $(MINUTES),--time-limit $(MINUTES))
	@bench/php/run cores --rounds $(RUNS) $(if $(MINUTES),--time-limit $(MINUTES))
	@bench/php/run count $(if $(MINUTES),--time-limit $(MINUTES))
	@bench/php/run report

bench-rails: ## Rails on puma under six allocators, into docs/results/rails.md (resumable)
	@$(ENSURE) build bench-rails
	@$(MAKE) --no-print-directory build
	@bench/rails/run --runs $(RUNS) $(if $(REQUESTS),--requests $(REQUESTS))

bench-rails-cluster: ## a preloaded cluster of Rails, seven configurations and a control, into docs/results/rails-cluster.md (resumable)
	@$(ENSURE) build bench-rails
	@$(MAKE) --no-print-directory build
	@bench/rails/cluster --rounds $(ROUNDS) $(if $(REQUESTS),--requests $(REQUESTS))

bench-rails-transaction: ## Ruby on the transaction heap itself, into docs/results/rails-transaction.md (resumable)
	@$(ENSURE) build bench-rails
	@$(MAKE) --no-print-directory core
	@bench/rails/transaction $(if $(filter-out file,$(origin ROUNDS)),--rounds $(ROUNDS))

bench-large-pages: ## the slides' tables and where pages matter today, into docs/results/large-pages.md (resumable)
	@$(ENSURE) build run bench test
	@$(MAKE) --no-print-directory build
	@scripts/install-r "$(CURDIR)/$(B)/r-library" >/dev/null 2>&1
	@bench/large-pages/run --rounds $(RUNS) $(if $(CONFIGURATIONS),--configurations $(CONFIGURATIONS)) $(if $(MINUTES),--time-limit $(MINUTES)) $(WORKLOADS)

install: build ## install under PREFIX (and DESTDIR); what make jvm built as well
	@scripts/install "$(B)" "$(PREFIX)" "$(DESTDIR)"

install-libraries: core ## install the libraries alone, below PREFIX, for a command that cargo install has put there
	@install -D -m 755 -t "$(DESTDIR)$(PREFIX)/lib/pagewise" $(B)/lib/libpagewise.so.0 $(B)/lib/libpagewise-preload.so \
	    $(B)/lib/libpagewise-general.so $(B)/lib/libpagewise-record.so

install-r: core ## install the R package into R's first library (or R_LIBRARY=FOLDER)
	@$(ENSURE) run
	@scripts/install-r $(if $(R_LIBRARY),"$(R_LIBRARY)")

check-r: core ## R CMD check of the R package
	@$(ENSURE) build run test
	@CHECK=1 scripts/test-rpkg

r-tarball: ## build build/pagewise_VERSION.tar.gz, for R CMD INSTALL on machines without this clone
	@$(ENSURE) run
	@scripts/r-tarball $(B)

deb: ## build Debian packages of what is committed, into build/deb
	@$(ENSURE) build deb
	@# Who installs *.deb from there is not to get those of another version.
	@rm -rf "$(B)/deb"
	@scripts/deb "$(B)/deb"

deb-release: ## Debian packages of what is committed, made on a bare newer RELEASE (trixie), into build/deb-RELEASE (root)
	@test/packages/build $(or $(RELEASE),trixie)

tarball: build ## build build/pagewise-VERSION-linux-x86_64.tar.gz, with an install script and a list of what is in it
	@scripts/tarball $(B)

portable: packages-build ## build for glibc 2.28 and newer (RHEL 8): a tarball and a Python wheel in build/portable
	@scripts/portable $(B)/portable
	@scripts/tarball $(B)/portable
	@scripts/wheel $(B)/portable

test-packages: ## install, use, upgrade and remove build/deb's packages, the tarballs and the wheel in bare Debians; services, containers (root)
	@test/packages/run $(SUITES)

test-reproducible: packages-build ## build the packages and tarballs twice, in other folders, and compare the bytes (an hour; PARTS="deb r-tarball tarball portable")
	@$(ENSURE) deb
	@test/reproducible/run $(PARTS)

uninstall: ## remove exactly what install put under PREFIX
	@scripts/uninstall "$(PREFIX)" "$(DESTDIR)"

format: ## format the C and the Rust sources in place
	@$(ENSURE) build lint
	@git ls-files -z -- '*.c' '*.h' '*.cpp' '*.hpp' ':!kernel' | xargs -0 -r clang-format -i
	@$(CARGO) fmt --all

lint: ## clang-format, shellcheck, rustfmt, clippy and Python's compiler, changing nothing
	@$(ENSURE) build lint
	@scripts/lint

clean: ## remove build/
	rm -rf "$(B)"
