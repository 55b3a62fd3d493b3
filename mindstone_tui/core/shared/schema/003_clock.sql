-- A clock that is set back must not keep a lease alive for as long as it went back: a lease that
-- begins in the future is over. Whoever still has it is refused by the epoch, as ever.

alter table mindstone.session add column lease_from timestamptz;

create function mindstone.lease_runs(p_from timestamptz, p_until timestamptz) returns boolean
language sql volatile parallel safe
as $$ select p_until > clock_timestamp()
    and (p_from is null or p_from < clock_timestamp() + interval '1 minute') $$;

create or replace function mindstone.take_lease(
    p_session bigint, p_holder text, p_seconds float8
) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
    update mindstone.session s
    set epoch = s.epoch + 1, holder = p_holder, lease_from = clock_timestamp(),
        lease_until = clock_timestamp() + make_interval(secs => p_seconds)
    where s.id = p_session and mindstone.is_mine(s.owner)
      and (s.holder is null or s.holder = p_holder
           or not mindstone.lease_runs(s.lease_from, s.lease_until))
    returning s.epoch
$$;

create or replace function mindstone.renew_lease(
    p_session bigint, p_holder text, p_epoch bigint, p_seconds float8
) returns boolean
language sql security definer set search_path = pg_catalog, pg_temp as $$
    with renewed as (
        update mindstone.session s
        set lease_from = clock_timestamp(),
            lease_until = clock_timestamp() + make_interval(secs => p_seconds)
        where s.id = p_session and s.holder = p_holder and s.epoch = p_epoch
          and mindstone.is_mine(s.owner)
        returning 1
    ) select exists (select from renewed)
$$;

revoke all on function mindstone.lease_runs(timestamptz, timestamptz) from public;
