-- The tables of the library, in steps. One that was ever released is never changed; what must
-- become different is a further step.

-- Step 1: everything.
create table facts (
    owner integer not null, name text not null, value, primary key (owner, name)
) without rowid;
create table owners (
    number integer primary key, name text not null unique, passages integer not null default 0
);
create table passages (
    row integer primary key,
    owner integer not null,
    id text not null,
    hash blob not null,
    session text not null,
    seq integer not null,
    entry text not null,
    turn integer not null,
    ts text not null,
    at real not null,
    role text not null,
    speaker text not null,
    kind text not null,
    text text not null,
    source_id text not null,
    piece integer not null,
    pieces integer not null,
    form text not null,
    about text not null,
    imported integer not null,
    rewound integer not null,
    sitting integer not null,
    vector integer not null,
    other integer not null
);
create index passages_by_seq on passages (owner, seq, piece);
create index passages_by_turn on passages (owner, turn);
create index passages_by_hash on passages (hash);
create index passages_without_vector on passages (owner, seq) where vector = 0;
create index passages_that_failed on passages (owner) where vector = 2;
create index passages_of_other_languages on passages (owner, seq) where other = 0;
create index passages_of_unread_language on passages (owner, seq) where other = 4;
create index passages_rewound on passages (owner) where rewound > 0;
create virtual table words using fts5 (
    body, hash, content='', contentless_delete=1, tokenize="{tokenizer}"
);
insert into words (words, rank) values ('automerge', 0);
insert into words (words, rank) values ('crisismerge', 1999);
create table signs (
    place integer primary key, owner integer not null, row integer not null, bits blob not null
);
create index signs_by_owner on signs (owner);
create table numbers (row integer primary key, numbers blob not null);
create table tokens (row integer primary key, signs blob not null);
create table language_signs (
    place integer primary key, owner integer not null, row integer not null, bits blob not null
);
create index language_signs_by_owner on language_signs (owner);
create table language_numbers (row integer primary key, numbers blob not null);
create table acts (
    row integer primary key,
    owner integer not null,
    seq integer not null,
    turn integer not null,
    ts text not null,
    kind text not null,
    about text not null,
    ok integer not null,
    code integer,
    error text not null,
    signature text not null,
    rewound integer not null default 0,
    unique (owner, seq, about)
);
create index acts_by_turn on acts (owner, turn);
create index acts_by_signature on acts (signature) where signature <> '';
create index acts_by_file on acts (about) where kind <> 'command';
create table act_programs (
    program text not null, act integer not null, primary key (program, act)
) without rowid;
create table uses (
    entry text primary key, injected integer not null, used integer not null
) without rowid;

-- Step 2: what somebody took back later.
alter table passages add column superseded integer not null default 0;

-- Step 3: every verdict, so that one which was taken back leaves the one before it in force.
create table verdicts (
    owner integer not null, seq integer not null, later integer not null,
    primary key (owner, seq, later)
) without rowid;
insert into verdicts select distinct owner, seq, superseded from passages where superseded > 0;

-- Step 4: sentences that were corrected, where the rest of a line holds.
alter table passages add column corrected text not null default '';
alter table verdicts add column words text not null default '';

-- Step 5: turns whose changes to files a person took back.
alter table passages add column undone integer not null default 0;
alter table acts add column undone integer not null default 0;
-- Sessions whose own tools changed files are read once more: nobody looked for that so far.
delete from facts where name in ('seq', 'hash', 'read') and owner in (
    select owner from acts where kind = 'change' and exists (
        select 1 from passages
        where passages.owner = acts.owner and passages.seq = acts.seq and imported = 0
    )
);

-- Step 6: and the files that were left alone then, as JSON. Sessions in which tools did anything
-- are read once more, for what was changed by calls that were cut short as well.
alter table passages add column left_alone text not null default '[]';
alter table acts add column left_alone text not null default '[]';
delete from facts where name in ('seq', 'hash', 'read') and owner in (select owner from acts);

-- Step 7: what a turn replaced whose changes to files were taken back holds again, where the model
-- had told it.
delete from facts where name in ('seq', 'hash', 'read') and owner in (
    select owner from passages where undone > 0
);

-- Step 8: not where files were left alone then: what was told of those is no longer so. And only
-- what tells of files is said to be taken back with them.
delete from facts where name in ('seq', 'hash', 'read') and owner in (
    select owner from passages where undone > 0
);
-- Nor is what was replaced by words that were taken back where they come from.
delete from facts where name in ('seq', 'hash', 'read') and owner in (
    select owner from verdicts where exists (
        select 1 from passages where passages.owner = verdicts.owner and imported > 0
    )
);

-- Step 9: for each text that was embedded, a passage that has its vector.
create table embedded (content integer primary key, row integer not null);
drop index passages_by_hash;
