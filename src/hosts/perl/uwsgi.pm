# The package `uwsgi` for spooler code (plugins/psgi/uwsgi_plmodule.c), implemented on top of spoold.
package uwsgi;
use strict;
use warnings;
use Carp qw();
use Scalar::Util qw();
use Spoold::SharedAreas;

use constant { VERSION => '2.0.21-spoold', SPOOL_OK => -2, SPOOL_RETRY => -1, SPOOL_IGNORE => 0 };

my ($wire, $loop, $master, $options, $postfork, $atexit);
my %rpcs;
my $areas;

# 0 while code is loaded: uWSGI loads code in its master, and forks the spoolers from it.
my $is_forked = 0;

# Options for kinds of processes that spoold does not have: code that sees them would hand work to such a process.
my %not_here = map { $_ => 1 } qw(mule mules farm);

sub _start {
    my ($given_wire, $settings, $given_loop) = @_;
    ($wire, $loop, $master) = ($given_wire, $given_loop, $settings->{masterpid}[0]);
    $options = {};
    $areas   = Spoold::SharedAreas->new(@{ $settings->{sharedarea} // [] });
    my @pairs = @{ $settings->{opt} // [] };
    while (my ($name, $value) = splice @pairs, 0, 2) {
        next if $not_here{$name};
        if    (!exists $options->{$name}) { $options->{$name} = $value }
        elsif (ref $options->{$name})     { push @{ $options->{$name} }, $value }
        else                              { $options->{$name} = [$options->{$name}, $value] }
    }
}

sub _fork { $is_forked = 1 }

# Returns the options. A value is a list if the option was given more than once.
sub opt () { return $options }

# -- tasks

sub spooler { _take(\@_, 1); $loop->{spooler} = $_[0]; return !!1 }

sub spool {
    _take(\@_, 1);
    my ($task) = @_;
    Carp::croak('spool argument must be a hashref') if (Scalar::Util::reftype($task) // '') ne 'HASH';
    my @body = exists $task->{body} ? (body => _bytes(delete $task->{body})) : ();
    my @pairs = map { (_key($_), _bytes($task->{$_})) } keys %$task;
    return _call($is_forked ? 'spool' : 'spool-while-loading', @pairs, @body);
}

# -- hooks

sub postfork { _take(\@_, 1); $postfork = $_[0]; return !!1 }
sub atexit   { _take(\@_, 1); $atexit   = $_[0]; return !!1 }

sub _postfork { $postfork->() if $postfork }
sub _end      { $atexit->()   if $atexit && $$ == $wire->{pid} }

# -- the process

sub worker_id         { return 0 }
sub i_am_the_lord     { _take(\@_, 1); return !!0 }                                   # there are no legions
sub log               { _take(\@_, 1); syswrite STDERR, _bytes($_[0]); return undef }
sub reload            { return !!kill HUP => $master }
sub set_user_harakiri { _take(\@_, 1); _call('harakiri', int $_[0]); return undef }

# -- a cache that all workers of the daemon share, without sizes, blocks or names of caches

sub cache_get    { _take(\@_, 1); return _cache('get', $_[0], '', 0, $_[1]) }
sub cache_exists { _take(\@_, 1); return defined _cache('get', $_[0], '', 0, $_[1]) ? !!1 : undef }
sub cache_set    { _take(\@_, 2); return _true(_cache('set', @_[0 .. 3])) }
sub cache_del    { _take(\@_, 1); return _true(_cache('del', $_[0], '', 0, $_[1])) }
sub cache_clear  { _take(\@_, 1); return _true(_cache('clear', '', '', 0, $_[0])) }

sub _cache {
    my ($what, $key, $value, $expires, $cache) = @_;
    return _call('cache', $what, _bytes($cache), _bytes($key), _bytes($value), int($expires // 0));
}

sub _true { return defined $_[0] && $_[0] eq '1' ? !!1 : undef }

# -- memory that all workers of the daemon share. As in uWSGI's plugin, there are no functions for numbers and explicit locks

sub sharedarea_read {
    _take(\@_, 2);
    my ($area, $position, $length) = @_;
    my $bytes = $areas->read($area, $position, $length);
    Carp::croak("unable to read from sharedarea $area") if !defined $bytes;
    return $bytes;
}

# Reads into the third argument.
sub sharedarea_readfast {
    _take(\@_, 3);
    my ($area, $position, undef, $length) = @_;
    $_[2] = sharedarea_read($area, $position, $length);
    return !!1;
}

sub sharedarea_write {
    _take(\@_, 3);
    my ($area, $position, $value) = @_;
    $areas->write($area, $position, _bytes($value)) or Carp::croak("unable to write to sharedarea $area");
    return !!1;
}

# -- functions by name, for modules that also serve a web application. They cannot be called from outside

sub register_rpc { _take(\@_, 2); $rpcs{ $_[0] } = $_[1]; return !!1 }

sub call {
    _take(\@_, 1);
    my ($name, @arguments) = @_;
    my $function = $rpcs{$name} // return undef;
    my $answer = eval { $function->(@arguments) };
    print STDERR "[uwsgi-perl error] $@" if $@ ne '';
    return defined $answer && length $answer ? "$answer" : undef;
}

# -- signals

sub register_signal {
    _take(\@_, 3);
    my ($number, $target, $function) = @_;
    _call('register-signal', _signal($number), _bytes($target));
    $loop->{signals}{$number} = $function;
    return !!1;
}

sub signal { _take(\@_, 1); _call('signal', _signal($_[0])); return undef }

sub add_timer { _take(\@_, 2); _call('timer', _signal($_[0]), int $_[1] * 1000, 0); return $_[0] }

sub add_rb_timer {
    _take(\@_, 2);
    _call('timer', _signal($_[0]), int $_[1] * 1000, int($_[2] // 0));
    return $_[0];
}

sub _signal {
    my ($number) = @_;
    return $number if $number =~ /\A[0-9]+\z/ && $number <= 255;
    Carp::croak("a signal number is 0 to 255, got $number");
}

# -- shared by all of the above

# Dies if there are too few arguments, as uWSGI's psgi_check_args() does.
sub _take {
    my ($arguments, $count) = @_;
    return if @$arguments >= $count;
    my $name = (caller 1)[3];
    Carp::croak("Usage: $name takes $count arguments");
}

# Returns the interpreter's internal bytes of a value, as uWSGI takes them: UTF-8 for everything that was ever text.
sub _bytes {
    my $text = defined $_[0] ? "$_[0]" : '';
    utf8::encode($text) if utf8::is_utf8($text);
    return $text;
}

# Returns the bytes of a key: one per character if that is possible, else UTF-8.
sub _key {
    my ($key) = @_;
    utf8::downgrade($key, 1) or utf8::encode($key);
    return $key;
}

# Sends a request to the worker, and returns the first value of the reply.
sub _call {
    my ($refusal, @values) = $wire->call(@_);
    Carp::croak($refusal) if defined $refusal;
    return $values[0];
}

sub import { }

# Functions that only report something. There are no requests, alarms or metrics here, so they do nothing.
my %silent = map { $_ => 1 } qw(add_var alarm metric_dec metric_div metric_inc metric_mul metric_set);

sub AUTOLOAD {
    my ($name) = our $AUTOLOAD =~ /(\w+)\z/;
    if ($silent{$name}) {
        _call('warn', "uwsgi::$name does nothing under spoold");
        return 1;
    }
    Carp::croak("uwsgi::$name is not there under spoold: docs/hosts.md lists what is");
}

sub DESTROY { }

1;
