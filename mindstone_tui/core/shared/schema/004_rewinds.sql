-- What was rewound is not found: the few lines that take something back, or bring it back again, are
-- looked up for every search.

create index entry_rewinds on mindstone.entry (session, seq)
where position('"kind":"rewound"'::bytea in line) > 0
   or position('"kind":"restored"'::bytea in line) > 0;
