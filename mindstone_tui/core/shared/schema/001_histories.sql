-- Histories: append-only chains of lines, one writer at a time, each role seeing only its own.
--
-- Nobody but the owner of this schema may write to a table. Everybody else reads through row-level
-- security and writes through the functions below, which check what they are given.

create table mindstone.session (
    id          bigint generated always as identity primary key,
    owner       name        not null,
    key         text        not null,
    head_seq    bigint      not null default -1,
    head_hash   text        not null default repeat('0', 64),
    bytes       bigint      not null default 0,
    created     timestamptz not null default clock_timestamp(),
    updated     timestamptz not null default clock_timestamp(),
    epoch       bigint      not null default 0,
    holder      text,
    lease_until timestamptz,
    unique (owner, key)
) with (fillfactor = 50);
comment on table mindstone.session is 'The head of each history; owner is a role: a person, or a team';

create table mindstone.entry (
    session bigint not null references mindstone.session (id),
    seq     bigint not null,
    line    bytea  not null,
    hash    bytea  not null generated always as
            (sha256(substring(line from 1 for octet_length(line) - 75))) stored,
    stored  timestamptz not null default clock_timestamp(),
    primary key (session, seq)
);
comment on table mindstone.entry is 'The exact bytes of every line; the database makes the hash itself';

create table mindstone.blob (
    session bigint not null references mindstone.session (id),
    sha256  bytea  not null,
    data    bytea  not null,
    primary key (session, sha256),
    check (sha256 = pg_catalog.sha256(data))
);

-- What was written stays, whoever asks.

create function mindstone.refuse_change() returns trigger
language plpgsql as $$
begin
    raise exception 'history is append-only: % on % is refused', tg_op, tg_table_name
        using errcode = 'MS010';
end $$;

create trigger entry_stays before update or delete on mindstone.entry
    for each row execute function mindstone.refuse_change();
create trigger entry_is_not_emptied before truncate on mindstone.entry
    for each statement execute function mindstone.refuse_change();
create trigger blob_stays before update or delete on mindstone.blob
    for each row execute function mindstone.refuse_change();
create trigger blob_is_not_emptied before truncate on mindstone.blob
    for each statement execute function mindstone.refuse_change();
create trigger session_stays before delete on mindstone.session
    for each row execute function mindstone.refuse_change();
create trigger session_is_not_emptied before truncate on mindstone.session
    for each statement execute function mindstone.refuse_change();

create function mindstone.refuse_rewind() returns trigger
language plpgsql as $$
begin
    if new.id <> old.id or new.owner <> old.owner or new.key <> old.key
       or new.epoch < old.epoch or new.head_seq < old.head_seq
       or (new.head_seq = old.head_seq and new.head_hash <> old.head_hash) then
        raise exception 'history is append-only: the head of % cannot go back', old.key
            using errcode = 'MS010';
    end if;
    return new;
end $$;

create trigger head_only_moves_on before update on mindstone.session
    for each row execute function mindstone.refuse_rewind();

-- Who may see and write what: a role, and the roles it is a member of.

create function mindstone.me() returns name
language sql stable parallel safe
as $$ select coalesce(nullif(current_setting('role'), 'none')::name, session_user) $$;

create function mindstone.is_mine(p_owner name) returns boolean
language sql stable parallel safe
as $$ select coalesce(pg_catalog.pg_has_role(
        (select r.oid from pg_catalog.pg_roles r where r.rolname = mindstone.me()),
        (select r.oid from pg_catalog.pg_roles r where r.rolname = p_owner),
        'member'), false) $$;

alter table mindstone.session enable row level security;
alter table mindstone.entry enable row level security;
alter table mindstone.blob enable row level security;
create policy own_sessions on mindstone.session for select using (mindstone.is_mine(owner));
create policy own_entries on mindstone.entry for select
    using (exists (select from mindstone.session s where s.id = session));
create policy own_blobs on mindstone.blob for select
    using (exists (select from mindstone.session s where s.id = session));

-- Writing. Every function that changes something runs as the schema's owner and asks is_mine().

create function mindstone.open_session(p_owner name, p_key text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    found_id bigint;
begin
    if not mindstone.is_mine(p_owner) then
        raise exception 'the role % is not a member of %', mindstone.me(), p_owner
            using errcode = 'MS004';
    end if;
    select s.id into found_id from mindstone.session s where s.owner = p_owner and s.key = p_key;
    if not found then
        insert into mindstone.session (owner, key) values (p_owner, p_key)
            on conflict do nothing returning id into found_id;
        if not found then
            select s.id into found_id from mindstone.session s
                where s.owner = p_owner and s.key = p_key;
        end if;
    end if;
    return found_id;
end $$;

-- One statement compares number, hash and epoch of the head and moves it on. Who comes second
-- waits for the first one's commit and then finds another head. The new lines must chain behind
-- the old head by the hashes that the database made of them, else nothing of this happened.
create function mindstone.append(
    p_session bigint, p_seq bigint, p_hash text, p_lines bytea[],
    p_epoch bigint default null, p_holder text default null, p_seconds float8 default 0
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    count  int := cardinality(p_lines);
    last   bytea := p_lines[count];
    newest text := encode(substring(last from octet_length(last) - 65 for 64), 'escape');
    v_key  text;
    seen   record;
begin
    update mindstone.session s
    set head_seq = p_seq + count,
        head_hash = newest,
        bytes = s.bytes + (select sum(octet_length(l) + 1) from unnest(p_lines) l),
        updated = clock_timestamp(),
        lease_until = case when s.holder = p_holder
            then clock_timestamp() + make_interval(secs => p_seconds) else s.lease_until end
    where s.id = p_session and s.head_seq = p_seq and s.head_hash = p_hash
      and s.epoch = coalesce(p_epoch, s.epoch) and mindstone.is_mine(s.owner)
    returning s.key into v_key;
    if not found then
        select s.head_seq, s.epoch, mindstone.is_mine(s.owner) as mine into seen
            from mindstone.session s where s.id = p_session;
        if seen.mine is not true then
            raise exception 'there is no such session' using errcode = 'MS004';
        elsif p_epoch is not null and seen.epoch <> p_epoch then
            raise exception 'the lease of epoch % is over, now it is %', p_epoch, seen.epoch
                using errcode = 'MS002';
        end if;
        raise exception 'the head is line %, not line %', seen.head_seq, p_seq
            using errcode = 'MS001';
    end if;
    with new_lines as (
        insert into mindstone.entry (session, seq, line)
        select p_session, p_seq + l.n, l.line from unnest(p_lines) with ordinality l (line, n)
        returning seq, line, encode(hash, 'hex') as digest
    ), chained as (
        select seq, line, digest, lag(digest, 1, p_hash) over (order by seq) as before
        from new_lines
    )
    select bool_and(
        substring(line from octet_length(line) - 148) =
            convert_to(',"prev":"' || before || '","hash":"' || digest || '"}', 'UTF8')
        and encode(substring(line from 1 for 40), 'escape') ~ ('^\{"v":[0-9]+,"seq":' || seq || ',"id":"')
        and position(convert_to('"session":' || to_json(v_key)::text || ',"ts":"', 'UTF8')
            in substring(line from 1 for 128 + 6 * octet_length(v_key))) > 0
        and position('\x0a'::bytea in line) = 0
    ) as sound into seen from chained;
    if seen.sound is not true then
        raise exception 'the lines do not follow line % of %', p_seq, v_key using errcode = 'MS003';
    end if;
    perform pg_notify('mindstone_' || p_session, (p_seq + count)::text);
end $$;

create function mindstone.keep_blob(p_session bigint, p_data bytea) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (select from mindstone.session s
                   where s.id = p_session and mindstone.is_mine(s.owner)) then
        raise exception 'there is no such session' using errcode = 'MS004';
    end if;
    insert into mindstone.blob (session, sha256, data)
        values (p_session, sha256(p_data), p_data) on conflict do nothing;
end $$;

-- The lease: by the server's clock alone, so that no client's clock matters.

create function mindstone.take_lease(p_session bigint, p_holder text, p_seconds float8)
returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
    update mindstone.session s
    set epoch = s.epoch + 1, holder = p_holder,
        lease_until = clock_timestamp() + make_interval(secs => p_seconds)
    where s.id = p_session and mindstone.is_mine(s.owner)
      and (s.holder is null or s.holder = p_holder or s.lease_until < clock_timestamp())
    returning s.epoch
$$;

create function mindstone.renew_lease(
    p_session bigint, p_holder text, p_epoch bigint, p_seconds float8
) returns boolean
language sql security definer set search_path = pg_catalog, pg_temp as $$
    with renewed as (
        update mindstone.session s
        set lease_until = clock_timestamp() + make_interval(secs => p_seconds)
        where s.id = p_session and s.holder = p_holder and s.epoch = p_epoch
          and mindstone.is_mine(s.owner)
        returning 1
    ) select exists (select from renewed)
$$;

create function mindstone.return_lease(p_session bigint, p_holder text, p_epoch bigint)
returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
    update mindstone.session s set holder = null, lease_until = null
    where s.id = p_session and s.holder = p_holder and s.epoch = p_epoch
      and mindstone.is_mine(s.owner)
$$;

revoke all on all tables in schema mindstone from public;
revoke all on all functions in schema mindstone from public;
