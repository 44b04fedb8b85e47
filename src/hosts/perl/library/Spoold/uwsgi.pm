# The package uwsgi outside uWSGI: `use Spoold::uwsgi;`, first in app.psgi, under Starman or any other server. What it stores, the daemon of
# SPOOLD_ENQUEUE_TO (a directory) or SPOOLD_INI (the ini that spoold runs) runs; what registers is left to that daemon. In a real uWSGI and in a
# worker of spoold it does nothing. docs/leaving-uwsgi.md explains it. Needs core modules only.
package Spoold::uwsgi;
use strict;
use warnings;
use Carp qw();
use Cwd qw(realpath);
use Scalar::Util qw();
use Spool;

use constant UNTOLD => 'it is not said where tasks go: set the environment variable SPOOLD_ENQUEUE_TO=/var/spool/app, or '
    . 'SPOOLD_INI=/etc/app.ini to the ini that spoold runs';

# Options of processes that are not here: code that sees them would hand work to a process that is not there.
my %not_here = map { $_ => 1 } qw(mule mules farm);
my ($said, @places, $options);

_install() if !defined &uwsgi::spool;

sub _install {
    my $nothing = sub { return undef };
    my $taken   = sub { return !!1 };
    my $number  = sub { return _signal($_[0]) };
    my %functions = (
        spool => \&_spool, opt => sub { _told(); return $options }, signal => \&_raise, log => \&_log,
        VERSION => sub () { '2.0.31-spoold' }, SPOOL_OK => sub () { -2 }, SPOOL_RETRY => sub () { -1 }, SPOOL_IGNORE => sub () { 0 },
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
    my $place   = _place($pairs{spooler});
    my %options = (body => $body // '', sync => $place->{isSynced});
    $options{at}       = $at       if defined $at       && length $at;
    $options{priority} = $priority if defined $priority && length $priority;
    _check_reader($place->{spool});
    my $path = eval { Spool::spool(\%pairs, $place->{spool}, %options) } // Carp::croak($@ =~ s/\n\z//r);
    delete $task->{body};
    return $path;
}

# A file has the mode 0600, so its daemon has to be its user; root stores for the owner of the spool.
sub _check_reader {
    my ($directory) = @_;
    my $daemon = (stat "$directory/.spoold")[4] // (stat $directory)[4] // Carp::croak("there is no spool directory $directory");
    return if $daemon == 0 || $> == 0 || $daemon == $>;
    Carp::croak("the daemon of $directory is the user $daemon, and cannot read what this one, $>, stores: let both be the same");
}

sub _place {
    my ($name) = @_;
    _told();
    return $places[0] if !defined $name || !length $name;
    my $real = realpath($name) // $name;
    for my $place (@places) { return $place if $place->{spool} eq $name || $place->{spool} eq $real }
    Carp::croak('spooler must be one of ' . join(', ', map { $_->{spool} } @places) . ", got $name");
}

# What is said changes in tests.
sub _told {
    my ($directory, $ini) = map { $_ // '' } @ENV{qw(SPOOLD_ENQUEUE_TO SPOOLD_INI)};
    return if defined $said && $said eq "$directory\0$ini";
    if    (length $directory) { _from_text($directory) }
    elsif (length $ini)       { _from_ini($ini) }
    else                      { Carp::croak(UNTOLD) }
    $said = "$directory\0$ini";
    return;
}

sub _from_text {
    my ($text) = @_;
    my @names = map { m{\A\s*(?:[^/=]*=)?(.*?)\s*\z}s } split /,/, $text;
    for (@names) { -d or Carp::croak("there is no spool directory $_: create it as the user of its daemon; this stores in directories alone") }
    @places  = map { { spool => realpath($_), isSynced => 1 } } @names;
    $options = { spooler => $names[0] };
    return;
}

# `spoold config` resolves the ini as the daemon does.
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
    for (@{ $told->{options} }) {    # a list if an option was given more than once
        my ($name, $value) = @$_;
        next if $not_here{$name};
        if    (!exists $options->{$name}) { $options->{$name} = $value }
        elsif (ref $options->{$name})     { push @{ $options->{$name} }, $value }
        else                              { $options->{$name} = [$options->{$name}, $value] }
    }
    return;
}

# Over the control socket of the first spool that has a daemon.
sub _raise {
    my $number = _signal($_[0]);
    require IO::Socket::UNIX;
    _told();
    for my $directory (map { "$_->{spool}/.spoold" } @places) {
        opendir my $held, $directory or next;
        for my $name (sort grep { /\Acontrol(?:\.[0-9]+)?\z/ } readdir $held) {
            my $peer = IO::Socket::UNIX->new(Peer => "$directory/$name") or next;    # it is dead, or another user's
            print {$peer} qq({"v":1,"id":1,"verb":"signal","args":{"number":$number}}\n);
            $peer->flush;
            my $answer = <$peer> // next;
            return undef if $answer =~ /"ok"/;
            Carp::croak("signal $number is not raised: $answer");
        }
    }
    Carp::croak("signal $number is not raised: this user reaches no daemon of " . join ', ', map { $_->{spool} } @places);
}

sub _log { syswrite STDERR, _bytes($_[0]); return undef }

sub _signal {
    my ($number) = @_;
    return $number if defined $number && $number =~ /\A[0-9]+\z/ && $number <= 255;
    Carp::croak('a signal number is 0 to 255, got ' . ($number // 'nothing'));
}

# The interpreter's internal bytes, as uWSGI takes them: UTF-8 of everything that was ever text.
sub _bytes {
    my $text = defined $_[0] ? "$_[0]" : '';
    utf8::encode($text) if utf8::is_utf8($text);
    return $text;
}

1;
