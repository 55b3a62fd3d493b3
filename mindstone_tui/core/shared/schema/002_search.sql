-- Search over histories without having them: their passages by words and, where pgvector is
-- installed, by meaning. Nothing here is history: it is made from the lines, and can be made anew.
--
-- An operator such as @@ uses no index behind row-level security, because it could tell what it
-- was compared with. So whoever searches calls functions that ask is_mine() themselves, and only
-- the owner of these tables, as which the functions run, is not subject to the policies on them.

create table mindstone.searched (
    session  bigint primary key references mindstone.session (id),
    owner    name   not null,
    seq      bigint not null default -1,
    chunking int    not null,
    passages int    not null default 0
);
comment on table mindstone.searched is 'How far into each history search has come';
create index searched_by_owner on mindstone.searched (owner);

create table mindstone.passage (
    session bigint   not null references mindstone.searched (session),
    place   int      not null,
    owner   name     not null,
    seq     bigint   not null,
    at      float8   not null,
    kind    text     not null,
    sitting int      not null,
    wanted  boolean  not null,
    length  int      not null,
    words   tsvector not null,
    body    bytea    not null,
    primary key (session, place)
);
comment on column mindstone.passage.place is 'Its number among those of the session, without gaps';
comment on column mindstone.passage.wanted is 'Whether it is to be found by meaning, too';
create index passage_by_words on mindstone.passage using gin (words);
create index passage_by_owner on mindstone.passage (owner);

alter table mindstone.searched enable row level security;
alter table mindstone.passage enable row level security;
create policy own_searched on mindstone.searched using (mindstone.is_mine(owner));
create policy own_passages on mindstone.passage using (mindstone.is_mine(owner));

create function mindstone.must_be_mine(p_owner name) returns void
language plpgsql stable as $$
begin
    if mindstone.is_mine(p_owner) is not true then
        raise exception 'the role % is not a member of %', mindstone.me(), p_owner
            using errcode = 'MS004';
    end if;
end $$;

create function mindstone.owner_of(p_session bigint) returns name
language plpgsql stable as $$
declare
    v_owner name;
begin
    select s.owner into v_owner from mindstone.session s where s.id = p_session;
    perform mindstone.must_be_mine(v_owner);
    return v_owner;
end $$;

-- Stems come from the machines, which all cut words alike; the database only compares them.

create function mindstone.stem(p_stem text) returns tsquery
language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp as
$$ select ('''' || replace(replace(p_stem, '\', '\\'), '''', '''''') || '''')::tsquery $$;

-- What follows the newest line that can be found so far. False when that was another line: then
-- another machine was quicker. The lines must be those that are kept here.
create function mindstone.add_passages(
    p_session bigint, p_chunking int, p_after bigint, p_through bigint, p_hash text,
    p_seqs bigint[], p_ats float8[], p_kinds text[], p_sittings int[], p_wanted boolean[],
    p_lengths int[], p_words text[], p_bodies bytea[]
) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_owner name := mindstone.owner_of(p_session);
    before  int;
begin
    if not exists (select from mindstone.entry e where e.session = p_session
                   and e.seq = p_through and e.hash = decode(p_hash, 'hex')) then
        raise exception 'line % is another one here', p_through using errcode = 'MS003';
    end if;
    insert into mindstone.searched (session, owner, chunking)
        values (p_session, v_owner, p_chunking) on conflict do nothing;
    update mindstone.searched s
    set seq = p_through, passages = s.passages + cardinality(p_seqs)
    where s.session = p_session and s.seq = p_after and s.chunking = p_chunking
    returning s.passages - cardinality(p_seqs) into before;
    if not found then
        return false;
    end if;
    insert into mindstone.passage
        (session, place, owner, seq, at, kind, sitting, wanted, length, words, body)
    select p_session, before + n - 1, v_owner, seq, at, kind, sitting, wanted, length,
        array_to_tsvector(string_to_array(words, ' ')), body
    from unnest(p_seqs, p_ats, p_kinds, p_sittings, p_wanted, p_lengths, p_words, p_bodies)
        with ordinality u (seq, at, kind, sitting, wanted, length, words, body, n);
    return true;
end $$;

-- A newer way to cut passages replaces what an older one made; never the other way round.
create function mindstone.search_anew(p_session bigint, p_chunking int) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mindstone.owner_of(p_session);
    update mindstone.searched s set seq = -1, passages = 0, chunking = p_chunking
        where s.session = p_session and s.chunking < p_chunking;
    if found then
        delete from mindstone.passage p where p.session = p_session;
    end if;
end $$;

create function mindstone.count_stems(p_owner name, p_stems text[], p_most int)
returns table (stem text, passages bigint)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mindstone.must_be_mine(p_owner);
    return query
    select w.stem, (
        select count(*) from (
            select from mindstone.passage p
            where p.owner = p_owner and p.words @@ mindstone.stem(w.stem) limit p_most
        ) held
    ) from unnest(p_stems) w (stem);
end $$;

-- Those with the most of what is rare; how well each fits is for the machine that asks to say.
create function mindstone.find_by_words(
    p_owner name, p_stems text[], p_rarity float8[], p_without text[],
    p_since float8, p_until float8, p_kinds text[], p_count int
) returns table (session bigint, place int)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    each_stem tsquery[] := array(select mindstone.stem(s) from unnest(p_stems) s);
    any_stem  tsquery;
    hidden    bigint[];
begin
    perform mindstone.must_be_mine(p_owner);
    select string_agg(s::text, ' | ')::tsquery into any_stem from unnest(each_stem) s;
    hidden := array(select s.id from mindstone.session s
                    where s.owner = p_owner and s.key = any(p_without));
    return query
    select p.session, p.place from mindstone.passage p
    where p.owner = p_owner and p.words @@ any_stem and p.session <> all(hidden)
      and p.at between p_since and p_until and (p_kinds = '{}' or p.kind = any(p_kinds))
    order by (select sum(w.rarity) from unnest(each_stem, p_rarity) w (stem, rarity)
              where p.words @@ w.stem) desc,
        p.length, p.session, p.place desc
    limit p_count;
end $$;

create function mindstone.read_passages(p_owner name, p_sessions bigint[], p_places int[])
returns table (session bigint, place int, key text, sitting int, passages int, body bytea)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mindstone.must_be_mine(p_owner);
    return query
    select p.session, p.place, s.key, p.sitting, d.passages, p.body
    from (select distinct * from unnest(p_sessions, p_places) u (session, place)) w
    join mindstone.passage p on p.session = w.session and p.place = w.place
    join mindstone.session s on s.id = p.session
    join mindstone.searched d on d.session = p.session
    where p.owner = p_owner;
end $$;

-- Meaning, where the extension pgvector is. May be called again at any time; true once it is there.
create function mindstone.add_meaning() returns boolean
language plpgsql as $outer$
declare
    place name;
begin
    if to_regclass('mindstone.meaning') is not null then
        return true;
    end if;
    if not exists (select from pg_catalog.pg_available_extensions where name = 'vector') then
        return false;
    end if;
    create extension if not exists vector;
    select n.nspname into place from pg_catalog.pg_extension e
        join pg_catalog.pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector';
    if not exists (select from pg_catalog.pg_type t join pg_catalog.pg_namespace n
                   on n.oid = t.typnamespace where n.nspname = place and t.typname = 'halfvec') then
        return false;
    end if;
    execute replace($made$
    create table mindstone.meaning (
        session bigint    not null,
        place   int       not null,
        owner   name      not null,
        model   text      not null,
        numbers VECTOR.halfvec not null,
        tokens  bytea     not null,
        spread  bytea     not null,
        primary key (session, place),
        foreign key (session, place) references mindstone.passage on delete cascade
    );
    comment on column mindstone.meaning.spread is 'Evenly distributed: the first few are a sample';
    create index meaning_spread on mindstone.meaning (owner, model, spread);
    -- Vectors have unit length, so the nearest by distance are the nearest by angle.
    create index meaning_near on mindstone.meaning
        using hnsw ((numbers::VECTOR.halfvec(384)) VECTOR.halfvec_l2_ops)
        where model = 'minilm-l6-v2-int8/1';
    alter table mindstone.meaning enable row level security;
    create policy own_meaning on mindstone.meaning using (mindstone.is_mine(owner));

    create function mindstone.keep_meaning(
        p_session bigint, p_model text, p_places int[], p_numbers text[], p_tokens bytea[],
        p_spread bytea[]
    ) returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
    declare
        v_owner name := mindstone.owner_of(p_session);
    begin
        insert into mindstone.meaning (session, place, owner, model, numbers, tokens, spread)
        select p_session, u.place, v_owner, p_model, u.numbers::VECTOR.halfvec, u.tokens, u.spread
        from unnest(p_places, p_numbers, p_tokens, p_spread) u (place, numbers, tokens, spread)
        join mindstone.passage p on p.session = p_session and p.place = u.place
        on conflict (session, place) do update set model = excluded.model,
            numbers = excluded.numbers, tokens = excluded.tokens, spread = excluded.spread;
    end $$;

    create function mindstone.without_meaning(p_session bigint, p_model text, p_most int)
    returns table (place int, body bytea)
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
    begin
        perform mindstone.owner_of(p_session);
        return query
        select p.place, p.body from mindstone.passage p
        where p.session = p_session and p.wanted and not exists (
            select from mindstone.meaning m
            where m.session = p.session and m.place = p.place and m.model = p_model)
        order by p.place limit p_most;
    end $$;

    create function mindstone.find_by_meaning(
        p_owner name, p_model text, p_dims int, p_asked text, p_without text[],
        p_since float8, p_until float8, p_kinds text[], p_count int
    ) returns table (session bigint, place int)
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
    begin
        perform mindstone.must_be_mine(p_owner);
        begin
            -- Versions before 0.8 stop at the nearest few, whoever they belong to.
            perform set_config('hnsw.iterative_scan', 'relaxed_order', true);
        exception when others then null;
        end;
        -- Written out, so that the index of this model can be used where it pays.
        return query execute format($q$
            select m.session, m.place from mindstone.meaning m
            join mindstone.passage p on p.session = m.session and p.place = m.place
            where m.owner = %1$L and m.model = %2$L
              and not exists (select from mindstone.session s
                              where s.id = m.session and s.key = any(%5$L::text[]))
              and p.at between %6$L and %7$L and (%8$L::text[] = '{}' or p.kind = any(%8$L::text[]))
            order by m.numbers::VECTOR.halfvec(%3$s)
                operator(VECTOR.<->) %4$L::VECTOR.halfvec(%3$s)
            limit %9$s $q$,
            p_owner, p_model, p_dims, p_asked, p_without, p_since, p_until, p_kinds, p_count);
    end $$;

    create function mindstone.read_meaning(
        p_owner name, p_model text, p_asked text, p_sessions bigint[], p_places int[]
    ) returns table (session bigint, place int, cosine float8, tokens bytea)
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
    begin
        perform mindstone.must_be_mine(p_owner);
        return query
        select m.session, m.place,
            1 - (m.numbers operator(VECTOR.<=>) p_asked::VECTOR.halfvec), m.tokens
        from (select distinct * from unnest(p_sessions, p_places) u (session, place)) w
        join mindstone.meaning m on m.session = w.session and m.place = w.place
        where m.owner = p_owner and m.model = p_model;
    end $$;

    create function mindstone.sample_meaning(p_owner name, p_model text, p_asked text, p_count int)
    returns table (cosine float8, tokens bytea)
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
    begin
        perform mindstone.must_be_mine(p_owner);
        return query
        select 1 - (m.numbers operator(VECTOR.<=>) p_asked::VECTOR.halfvec), m.tokens
        from mindstone.meaning m where m.owner = p_owner and m.model = p_model
        order by m.spread limit p_count;
    end $$;
    $made$, 'VECTOR', quote_ident(place));
    revoke all on mindstone.meaning from public;
    revoke all on all functions in schema mindstone from public;
    return true;
end $outer$;

revoke all on all tables in schema mindstone from public;
revoke all on all functions in schema mindstone from public;
