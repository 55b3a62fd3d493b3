#!/bin/sh
# What the programs call that MindStone is attached to. `mindstone attach` writes this file.
#
# Another program waits for it: whatever is gone, it prints nothing, ends with 0 and leaves one line
# in the log beside it.
python=@python@
package=@package@
program=@program@
perl=@perl@
rules=@rules@
here=${0%/*}
umask 077

# Checks before anything is loaded: the first that fails is why nothing else is done.
check() {
    if [ ! -x "$python" ]; then
        why="$python is gone"
    elif [ ! -f "$package/mindstone_tui/hook.py" ]; then
        why="MindStone is gone from $package"
    fi
}

# One line in our log, where none of the last says the same: nobody else may be left to shorten it.
note() {
    tail -n 20 "$here/mindstone.log" | grep -qF " $1" ||
        printf '%s pid %s %s\n' "$(date -u +%FT%T+00:00)" $$ "$1" >>"$here/mindstone.log"
} 2>/dev/null

# A tool server without tools, in place of one that would fail in the other program.
serve_nothing() {
    while IFS= read -r line; do
        id=$(printf '%s' "$line" | sed -n \
            -e 's/.*"id" *: *\([0-9][0-9]*\).*/\1/p' -e 's/.*"id" *: *\("[^"]*"\).*/\1/p')
        case $line in
        *'"initialize"'*)
            version=$(printf '%s' "$line" | sed -n 's/.*"protocolVersion" *: *"\([^"]*\)".*/\1/p')
            result='{"protocolVersion":"'${version:-2025-06-18}'","capabilities":{"tools":{}},'
            result=$result'"serverInfo":{"name":"mindstone","version":"0"}}'
            ;;
        *'"tools/list"'*) result='{"tools":[]}' ;;
        *) result='{}' ;;
        esac
        [ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
    done
}

# Asks the resident without Python, whose start alone takes longer than the answer. Whatever is not
# as it should be is left to Python, with all that was said; what takes too long is not waited for.
ask='
my ($state, $program, @python) = @ARGV;
binmode STDIN; binmode STDOUT;
my $raw = do { local $/; <STDIN> };
sub leave {
    alarm 0;
    open(my $other, q{|-}, @python) or exit 1;
    binmode $other; print $other $raw; close $other;
    exit($? >> 8);
}
$SIG{ALRM} = sub { exit 0 };
$SIG{PIPE} = q{IGNORE};
leave() if $^O ne q{linux} || length $raw > 262_144;
my ($home) = map { $python[$_ + 1] } grep { $python[$_] eq q{--home} } 0 .. $#python - 1;
$home = $ENV{MINDSTONE_HOME} unless defined $home;
$state = "$home/state" if $home;
(my $said = $raw) =~ tr/\r\n/ /;
$said =~ s/\A\s+|\s+\z//g;
(my $signs = $said) =~ s/\\.//gs;
leave() if $signs =~ tr/"// % 2;
$signs =~ s/"[^"]*"//g;
$signs =~ tr/{}[]//cd;
my ($depth, $left) = (0, length $signs);
for my $sign (split //, $signs) {
    $depth += $sign =~ tr/{[// ? 1 : -1;
    leave() if --$left && $depth <= 0;
}
leave() if $depth || $said !~ /\A\{.*\}\z/s;
open(my $file, q{<}, "$state/serve.json") or leave();
my ($path) = do { local $/; <$file> } =~ /"socket": *"([^"\\]{1,107})"/;
my $line;
leave() unless $path && socket($line, 1, 1, 0) && connect($line, pack(q{Sa*}, 1, "$path\0"));
alarm 1;
my $asked = qq({"jsonrpc":"2.0","id":1,"method":"hook","params":{"program":"$program","said":$said}}\n);
while (length $asked) { my $sent = syswrite($line, $asked) or leave(); substr($asked, 0, $sent) = q{} }
my $heard = q{};
while ($heard !~ /\n\z/) { sysread($line, $heard, 65_536, length $heard) or leave() }
$heard =~ s/\s+\z//;
my $at = index($heard, q{"result":});
exit 0 if $at < 0;
my $answer = substr($heard, $at + 9, -1);
print "$answer\n" if $answer =~ /\A\{"(?:hookSpecificOutput|decision)":/;
'

# Whether a rule with a check may bind work in this folder, by the list that stands beside us.
binds_here() {
    [ -e "$rules" ] || return 1
    [ -r "$here/rules-bind" ] && [ ! "$rules" -nt "$here/rules-bind" ] || return 0
    named=$PWD
    cd -P . || return 0
    while IFS= read -r folder; do
        case $named/ in "$folder"/*) return 0 ;; esac
        case $PWD/ in "$folder"/*) return 0 ;; esac
    done <"$here/rules-bind"
    return 1
} 2>/dev/null

if [ "$2" = before ] && ! binds_here; then
    [ -e "$here/at-action" ] || exit 0
    called=$1 # memory may speak, and nobody waits for more than that
    shift 2
    set -- "$called" about "$@"
fi
why=
check
if [ -n "$why" ] && [ -x "$program" ]; then # it has moved, and knows where to
    [ "$1" != mcp ] || exec @words@ mcp
    @words@ hook "$@" 2>/dev/null && exit 0
    why="$program failed with exit code $?"
elif [ -z "$why" ]; then
    [ "$1" != mcp ] || exec "$python" -P -m mindstone_tui mcp
    if [ "$2" != before ] && [ -x "$perl" ]; then # a refusal must not be lost, and takes its time
        PERL5OPT='' PERL5LIB='' PERL_UNICODE='' "$perl" -fe "$ask" "$here" "$1" \
            "$python" -IS -c @hook@ "$package" "$@" --state "$here" 2>/dev/null && exit 0
    else
        "$python" -IS -c @hook@ "$package" "$@" --state "$here" 2>/dev/null && exit 0
    fi
    why="the hook failed with exit code $?"
fi
note "hook $1: $why"
[ "$1" != mcp ] || serve_nothing
exit 0
