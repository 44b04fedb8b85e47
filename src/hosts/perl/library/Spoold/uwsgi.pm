# The package uwsgi outside uWSGI: `use Spoold::uwsgi;`, first in app.psgi, under Starman or any other server. The daemon of
# SPOOLD_ENQUEUE_TO (a directory, or the address of its socket) or of SPOOLD_INI (the ini that spoold runs) runs the tasks that
# are stored here. Registering has no effect here, because that daemon's code registers. In a real uWSGI and in a worker of spoold
# this module does nothing. docs/leaving-uwsgi.md explains it. It needs core modules only.
package Spoold::uwsgi;
use strict;
use warnings;
use Carp qw();
use Cwd qw(realpath);
use POSIX qw(ceil);
use Scalar::Util qw();
use Spool;
use Time::HiRes qw(time);
use Time::Local qw(timegm timelocal);

use constant PATIENCE => 5;                      # seconds: the longest wait for the answer of a daemon
use constant LAST_SECOND => 253_402_300_799;    # the end of the year 9999; larger numbers are probably milliseconds

use constant UNTOLD => 'nothing says where tasks go: set the environment variable SPOOLD_ENQUEUE_TO=/var/spool/app, or '
    . 'SPOOLD_INI=/etc/app.ini to the ini that spoold runs';

# Options for kinds of processes that do not exist here: code that sees them would hand work to such a process.
my %not_here = map { $_ => 1 } qw(mule mules farm);
# The address of a daemon's socket, unlike a path.
my $address      = qr{\A(?:\@.+|[^/]*:[0-9]+)\z}s;
my %unit_seconds = (ms => 0.001, s => 1, m => 60, h => 3600, d => 86_400, w => 604_800);
my $dated = qr{\A(\d{4})-(\d\d)-(\d\d)(?:[T\ ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(?:\ ?(Z|UTC|[+-]\d\d(?::?\d\d)?))?)?\z}ai;
my ($said, @places, $options);

_install() if !defined &uwsgi::spool;

sub _install {
    my $nothing = sub { return undef };
    my $taken   = sub { return !!1 };
    my $number  = sub { return _signal($_[0]) };
    my %functions = (
        spool => \&_spool, opt => sub { _told(); return $options }, signal => \&_raise, log => \&_log,
        VERSION => sub () { '2.0.21-spoold' }, SPOOL_OK => sub () { -2 }, SPOOL_RETRY => sub () { -1 }, SPOOL_IGNORE => sub () { 0 },
        worker_id => sub { return $$ }, i_am_the_lord => sub { return !!0 }, set_user_harakiri => $nothing,
        (map { $_ => $taken } qw(spooler postfork register_rpc)),
        (map { $_ => $number } qw(register_signal add_timer add_rb_timer)),
        atexit => sub { $uwsgi::atexit = $_[0]; return !!1 },
    );
    no strict 'refs';
    *{"uwsgi::$_"} = $functions{$_} for keys %functions;
    *uwsgi::AUTOLOAD = sub {
        my ($name) = our $AUTOLOAD =~ /(\w+)\z/;
        return if $name eq 'DESTROY' || $name eq 'import';
        Carp::croak("uwsgi::$name is not there outside uWSGI: docs/uwsgi-module.md says what to take instead");
    };
    $INC{'uwsgi.pm'} //= __FILE__;
    return;
}

END { $uwsgi::atexit->() if $uwsgi::atexit }

sub _spool {
    my ($task) = @_;
    Carp::croak('Usage: uwsgi::spool takes 1 arguments') if !@_;
    Carp::croak('spool argument must be a hashref') if (Scalar::Util::reftype($task) // '') ne 'HASH';
    my %pairs = map { _bytes($_) => _bytes($task->{$_}) } keys %$task;
    my ($body, $at, $priority) = map { delete $pairs{$_} } qw(body at priority);
    my %options = (body => $body // '');
    if (defined $at && length $at) {
        my $seconds = _seconds($at);
        $options{at} = $seconds if $seconds >= 1;    # a time before that means at once, which needs no key
    }
    if (defined $priority && length $priority) {
        $priority =~ /\A[0-9]{1,255}\z/ or Carp::croak(qq(priority must be digits only, got "$priority"));
        $options{priority} = $priority;
    }
    my $place = _place($pairs{spooler});
    my $path  = eval { _store($place, \%pairs, %options) } // Carp::croak($@ =~ s/\n\z//r);
    delete $task->{body};
    return $path;
}

# Stores a task. Returns the path of its file, or the address of the daemon's socket to which it was sent.
sub _store {
    my ($place, $pairs, %options) = @_;
    if (_is_socket($place->{spool})) {
        require SpoolSocket;
        delete $pairs->{CONTENT_LENGTH};
        SpoolSocket::send_task($pairs, $place->{spool}, %options);
        return $place->{spool};
    }
    _check_reader($place->{spool});
    return Spool::spool($pairs, $place->{spool}, %options, sync => $place->{isSynced});
}

# Returns the epoch seconds of the key `at`, as the daemon reads it (src/formats/protocol/at.ts).
sub _seconds {
    my ($text) = @_;
    my $is_number = $text =~ /\A-?[0-9]+(?:\.[0-9]*)?\z/;
    my $seconds   = $is_number ? $text =~ s/\.\z//r : $text =~ /\A\+(.*)/s ? _from_now($1) : _dated($text);
    return $seconds if defined $seconds && abs $seconds <= LAST_SECOND;
    my $hint = $is_number ? ', which is after the year 9999: are these milliseconds? Give seconds, or a Date' : '';
    Carp::croak(qq(at must be epoch seconds, a Date, an ISO 8601 date, or +1h30m from now, got "$text"$hint));
}

sub _from_now {
    my ($text) = @_;
    return ceil(time + $text) if $text =~ /\A[0-9]+(?:\.[0-9]*)?\z/;
    return undef if $text !~ /\A(?:[0-9]+(?:\.[0-9]+)?(?:ms|[smhdw]))+\z/;
    my $sum = 0;
    $sum += $1 * $unit_seconds{$2} while $text =~ /([0-9.]+)(ms|[smhdw])/g;
    return ceil(time + $sum);
}

# Returns the epoch seconds of an ISO 8601 date, in the zone of this machine unless the date names one; undef if the text is not a
# date.
sub _dated {
    my ($text) = @_;
    my ($year, $month, $day, $hour, $minute, $second, $fraction, $zone) = $text =~ $dated or return undef;
    my @fields = ($second // 0, $minute // 0, $hour // 0, $day, $month - 1, $year);
    return undef if $fields[0] > 59;
    my $seconds = eval { defined $zone ? timegm(@fields) - _offset($zone) : timelocal(@fields) } // return undef;
    my $millis  = substr(($fraction // '') . '000', 0, 3);
    return $millis eq '000' ? $seconds : "$seconds.$millis" =~ s/0+\z//r;
}

sub _offset {
    my ($sign, $hours, $minutes) = $_[0] =~ /\A([+-])([0-9]{2}):?([0-9]{2})?\z/ or return 0;
    $minutes //= 0;
    die if $hours > 23 || $minutes > 59;
    return "${sign}1" * ($hours * 3600 + $minutes * 60);
}

# Dies if the daemon is another user: a task file has the mode 0600, so the daemon could not read it. Root stores for the owner of
# the spool.
sub _check_reader {
    my ($directory) = @_;
    my $daemon = (stat "$directory/.spoold")[4] // (stat $directory)[4] // Carp::croak("there is no spool directory $directory");
    return if $daemon == 0 || $> == 0 || $daemon == $>;
    Carp::croak("the daemon of $directory is the user $daemon, and cannot read what this one, $>, stores: let both be the same, or store "
            . 'over its socket (SPOOLD_ENQUEUE_TO=/run/spoold.sock)');
}

sub _place {
    my ($name) = @_;
    _told();
    return $places[0] if !defined $name || !length $name;
    my $real = realpath($name) // $name;
    for my $place (@places) { return $place if $place->{spool} eq $name || $place->{spool} eq $real }
    return $places[0] if _is_socket($places[0]{spool});    # the daemon behind the socket knows its own spools
    Carp::croak('spooler must be one of ' . join(', ', map { $_->{spool} } @places) . ", got $name");
}

# Reads places and options from the environment, and again if it has changed, as it does in tests.
sub _told {
    my ($directory, $ini) = map { $_ // '' } @ENV{qw(SPOOLD_ENQUEUE_TO SPOOLD_INI)};
    return if defined $said && $said eq "$directory\0$ini";
    if    (length $directory) { _from_text($directory) }
    elsif (length $ini)       { _from_ini($ini) }
    else                      { Carp::croak(UNTOLD) }
    $said = "$directory\0$ini";
    return;
}

# Reads places from PLACE, or from several with QUEUE= before the places of queues other than the default one. The default queue's
# place comes first.
sub _from_text {
    my ($text) = @_;
    my (@own, @others);
    for my $entry (split /,/, $text) {
        my ($queue, $place) = $entry =~ m{\A\s*(?:([^=/]*)=)?(.*?)\s*\z}s;
        push @{ ($queue // 'default') eq 'default' ? \@own : \@others }, $place;
    }
    @own or Carp::croak('SPOOLD_ENQUEUE_TO: expected a place for tasks without a queue');
    @places  = map { { spool => _name($_), isSynced => 1 } } @own, @others;
    $options = { spooler => $places[0]{spool} };
    return;
}

sub _name {
    my ($place) = @_;
    Carp::croak('Perl does not store tasks on Redis itself: name the directory that a daemon forwards there (spooler-fallback)')
        if $place =~ /\Arediss?(?:\+\w+)?:/i;    # the message leaves out the place, which may have a password
    return $place if $place =~ $address;
    my $path = $place =~ s{\A~(?=/|\z)}{$ENV{HOME} // '~'}er;
    -d $path || -S $path or Carp::croak("there is no spool directory $place: create it as the user of its daemon");
    return realpath($path);
}

sub _is_socket { my ($name) = @_; return $name =~ $address || -S $name }

# Reads places and options from `spoold config`, which resolves the ini as the daemon does.
sub _from_ini {
    my ($ini) = @_;
    require JSON::PP;
    my ($program) = grep { -f && -x } map { "$_/spoold" } split(/:/, $ENV{PATH} // ''), 'node_modules/.bin';
    defined $program or Carp::croak('the program spoold is neither in the PATH nor in ./node_modules/.bin: npm install -g spoold');
    my $out = do {
        local $ENV{SPOOLD_INI};
        delete $ENV{SPOOLD_INI};
        open my $pipe, '-|', $program, 'config', '--as-json', '--with-secrets', $ini or Carp::croak("$program: $!");
        local $/;
        my $text = <$pipe>;
        close $pipe or Carp::croak("the configuration $ini cannot be read: spoold config says why");
        $text;
    };
    my $told = JSON::PP->new->utf8->decode($out);
    @places = @{ $told->{spools} } or Carp::croak("$ini has no spool: expected spooler = /var/spool/app");
    $options = {};
    for (@{ $told->{options} }) {    # a value is a list if the option was given more than once
        my ($name, $value) = @$_;
        next if $not_here{$name};
        if    (!exists $options->{$name}) { $options->{$name} = $value }
        elsif (ref $options->{$name})     { push @{ $options->{$name} }, $value }
        else                              { $options->{$name} = [$options->{$name}, $value] }
    }
    return;
}

# Raises a signal over the control socket of the first spool that has a daemon, or over the address to which tasks go.
sub _raise {
    my $number = _signal($_[0]);
    require SpoolSocket;
    _told();
    for my $name (map { $_->{spool} } @places) {
        return _raise_at($number, $name) if _is_socket($name);
        opendir my $held, "$name/.spoold" or next;
        for my $control (sort grep { /\Acontrol(?:\.[0-9]+)?\z/ } readdir $held) {
            my $peer = IO::Socket::UNIX->new(Peer => "$name/.spoold/$control") or next;    # the daemon is dead, or another user's
            print {$peer} qq({"v":1,"id":1,"verb":"signal","args":{"number":$number}}\n);
            $peer->flush;
            my $answer = <$peer> // next;
            return undef if $answer =~ /"ok"/;
            Carp::croak("signal $number is not raised: $answer");
        }
    }
    Carp::croak("signal $number is not raised: this user reaches no daemon of " . join ', ', map { $_->{spool} } @places);
}

# Sends a signal to an address, as `uwsgi --signal` does.
sub _raise_at {
    my ($number, $where) = @_;
    my $peer = SpoolSocket::connection($where, PATIENCE) or Carp::croak("unable to deliver signal $number to node $where");
    $peer->print(pack 'C4', 110, 0, 0, $number) and $peer->flush;
    read $peer, my $answer, 4;
    return undef if $answer eq "\xff\0\0\1";
    Carp::croak(length $answer ? "node $where rejected signal $number" : "unable to deliver signal $number to node $where");
}

sub _log { syswrite STDERR, _bytes($_[0]); return undef }

sub _signal {
    my ($number) = @_;
    return $number if defined $number && $number =~ /\A[0-9]+\z/ && $number <= 255;
    Carp::croak('a signal number is 0 to 255, got ' . ($number // 'nothing'));
}

# Returns the interpreter's internal bytes of a value, as uWSGI takes them: UTF-8 for everything that was ever text.
sub _bytes {
    my $text = defined $_[0] ? "$_[0]" : '';
    utf8::encode($text) if utf8::is_utf8($text);
    return $text;
}

1;
