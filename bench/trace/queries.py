"""Allocates within SQLite: a table in memory, an index, sorted and grouped queries: queries.py ROWS."""

import sqlite3
import sys

rows = int(sys.argv[1])
database = sqlite3.connect(":memory:")
database.execute("create table visits (id integer primary key, name text, page text, seconds real)")
database.executemany("insert into visits values (?, ?, ?, ?)",
                     ((i, f"visitor {i * 7919 % 10007}", "/" + "x" * (i % 60), i % 97 / 7) for i in range(rows)))
database.execute("create index by_name on visits (name)")
for number in range(rows // 20):
    database.execute("select page, seconds from visits where name = ? order by seconds", (f"visitor {number}",)).fetchall()
print(database.execute("select count(*), max(total) from (select sum(seconds) as total from visits group by name, page)").fetchone())
