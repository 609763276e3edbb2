-- SPDX-License-Identifier: MIT
\set ON_ERROR_STOP on
\pset pager off
set max_parallel_workers_per_gather = 2;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
set min_parallel_index_scan_size = 0;

create table items(id int primary key, kind int, name text, amount numeric, place point, words tsvector, extra jsonb);
insert into items
  select i, i * 7919 % 101, md5(i::text) || repeat('x', i % 60), (i * 37 % 100003) / 7.0, point(i % 300, i % 700),
         to_tsvector('simple', 'word' || i % 997 || ' more' || i % 31),
         jsonb_build_object('n', i, 'list', jsonb_build_array(i, i + 1, md5((i * 3)::text)))
  from generate_series(1, 60000) i;
create table sales(id int, item int, day date, price float8);
insert into sales
  select i, i * 31 % 60000 + 1, date '2000-01-01' + i % 900, i * 13 % 1009 / 8.0 from generate_series(1, 120000) i;

create index on items using btree (name, kind);
create index on items using gin (words);
create index on items using gin (extra jsonb_path_ops);
create index on items using gist (place);
create index on items using spgist (name);
create index on sales using brin (day);
create index on sales using hash (item);
analyze items, sales;

-- Sorts in memory and on disk.
set work_mem = '64MB';
select md5(string_agg(name, ',' order by name desc, id)) from items;
set work_mem = '128kB';
select md5(string_agg(id::text, ',')) from (select id from items order by amount, name, id) s;
select count(*), max(r) from (select row_number() over (partition by kind order by amount, id) r from items) w;

-- Hash joins and aggregates, in one process and in three, in one batch and in many.
set work_mem = '64MB';
set enable_nestloop = off;
set enable_mergejoin = off;
select kind, count(*), sum(price), round(avg(amount), 6) from items join sales on item = items.id group by kind order by kind;
set work_mem = '128kB';
select day, count(distinct item), sum(price) from sales join items on item = items.id where kind < 50 group by day order by day limit 30;
reset enable_nestloop;
reset enable_mergejoin;

-- Compiled expressions.
set work_mem = '16MB';
set jit = on;
set jit_above_cost = 0;
set jit_inline_above_cost = 0;
set jit_optimize_above_cost = 0;
select sum(price * 2 + id % 7) filter (where id % 3 = 1), max(price - id) from sales;
select count(*) from items where amount > 100 and kind in (1, 2, 3, 5, 8, 13) and name like '%ab%';
set jit = off;

-- Text, documents, shapes, recursion, arrays, a language.
select count(*) from items where words @@ to_tsquery('simple', 'word7 | more3 & word5');
select count(*) from items where extra @> '{"n": 4711}';
select id from items order by place <-> point(100, 100), id limit 10;
select md5(jsonb_agg(extra order by id)::text) from items where kind = 7;
with recursive r(n, s) as (select 1, 'x' union all select n + 1, md5(s) from r where n < 3000) select s from r where n = 3000;
select md5(array_agg(id order by id)::text), length(string_agg(repeat(name, 30), '' order by id)) from items where id < 20000;
select regexp_replace(repeat('abc,def;', 20000), '[,;]+([a-c]+)', '<\1>', 'g') = '' as empty;
create function primes(most int) returns setof int language plpgsql as $$
declare sieve bool[] := array_fill(true, array[most]); n int; m int;
begin
  for n in 2..most loop
    if sieve[n] then
      return next n;
      m := n * 2;
      while m <= most loop sieve[m] := false; m := m + n; end loop;
    end if;
  end loop;
end $$;
select count(*), sum(p) from primes(3000) p;

-- Changes.
begin;
update items set name = name || 'changed', amount = amount + 1 where id % 3 = 0;
savepoint one;
delete from sales where id % 2 = 0;
rollback to one;
delete from sales where id % 5 = 0;
commit;
create materialized view totals as select kind, sum(amount) total from items group by kind;
refresh materialized view totals;
cluster items using items_pkey;
vacuum full sales;
vacuum analyze items;
reindex table sales;
copy (select * from items order by id) to program 'md5sum';
create temp table spare as table sales;
copy sales to '/dev/null' (format binary);
select md5(string_agg(s::text, '' order by id)) from sales s;
select kind, total from totals order by kind limit 10;
