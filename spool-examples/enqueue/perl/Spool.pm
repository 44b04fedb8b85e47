# Stores tasks for spoold or uWSGI. Copy this file: it needs Perl 5.14 or later, and core modules only.
#
#   use Spool;
#   my $path = Spool::spool({ to => 'joe' }, '/var/spool/app', at => time + 60, priority => 5, body => 'hello');
package Spool;
use strict;
use warnings;
use Fcntl qw(O_WRONLY O_CREAT O_EXCL);
use IO::Handle;
use Sys::Hostname qw(hostname);
use Time::HiRes qw(gettimeofday);

use constant LIMIT => 0xFFFF;    # bytes: the size of the block and each length in it are 16-bit numbers
my $counter = 0;

# spool($dictionary, $spooler, %options): stores one task, and returns the path of its file.
#
#   $dictionary  a hash, or an array [ key => value, … ] to keep the order; characters are written as UTF-8, bytes unchanged
#   $spooler     the spool directory, which has to exist
#   at           do not run before this time: epoch seconds, may have a fraction
#   priority     the priority directory, digits only; lower runs first if the daemon has spooler-ordered
#   body         the body, of any size
#   sync         0: do not wait until the task is on disk; by default it survives a power failure
#
# Dies for invalid arguments, before anything is written, and if the task could not be stored.
sub spool {
    my ($dictionary, $spooler, %options) = @_;
    my $packet    = encode($dictionary, $options{at}, $options{priority});
    my $sync      = $options{sync} // 1;
    my $directory = $spooler;
    if (defined $options{priority}) {
        $directory = "$spooler/$options{priority}";
        mkdir $directory or $!{EEXIST} or die "$directory cannot be made: $!\n";    # 0777 minus the umask
    }
    my ($seconds, $micros) = gettimeofday();
    my $name = join '_', 'uwsgi_spoolfile_on', hostname(), $$, ++$counter, int rand 2**31, $seconds, $micros;

    # No daemon runs a file whose name begins with a dot; the rename publishes only a complete file.
    my ($hidden, $path) = ("$directory/.$name", "$directory/$name");
    eval {
        sysopen my $file, $hidden, O_WRONLY | O_CREAT | O_EXCL, 0600 or die "$!\n";
        binmode $file;
        print {$file} $packet, _bytes($options{body} // '') and $file->flush or die "$!\n";

        # After the last write, which sets the mtime to now.
        if (defined $options{at}) { utime int $options{at}, int $options{at}, $file or die "$!\n" }
        if ($sync)                { $file->sync or die "$!\n" }
        close $file and rename $hidden, $path or die "$!\n";
        1;
    } or do {
        my $error = $@;
        unlink $hidden;
        die "the task could not be stored in $directory: $error";
    };
    if ($sync) {    # syncs the rename, and a new priority directory
        for my $each ($directory, $spooler) {
            open my $handle, '<', $each or die "$each cannot be opened: $!\n";
            $handle->sync or die "$each cannot be synced: $!\n";
        }
    }
    return $path;
}

# The packet: u8 17, u16 size, u8 0, then pairs of ( u16 length, key, u16 length, value ), little endian.
sub encode {
    my ($dictionary, $at, $priority) = @_;
    my @pairs = ref $dictionary eq 'HASH' ? map { $_ => $dictionary->{$_} } sort keys %$dictionary : @$dictionary;
    my %has   = @pairs;
    for (qw(at priority body)) { exists $has{$_} and die qq(the key "$_" is not for the dictionary: give it as an option\n) }
    if (defined $at) {
        $at =~ /\A[0-9]+(?:\.[0-9]+)?\z/ or die "at must be epoch seconds, got $at\n";
        push @pairs, at => $at;
    }
    if (defined $priority) {
        $priority =~ /\A[0-9]+\z/ or die "priority must be digits, got $priority\n";
        push @pairs, priority => $priority;
    }
    my $block = '';
    while (my ($key, $value) = splice @pairs, 0, 2) {
        my $name = substr $key, 0, 40;
        defined $value or die qq(the value of "$name" is undefined\n);
        ($key, $value) = (_bytes($key), _bytes($value));
        length $key          or die "a key is empty\n";
        length $key <= LIMIT or die sprintf qq(the key "%s" has %d bytes, the limit is %d\n), $name, length $key, LIMIT;
        length $value <= LIMIT
            or die sprintf qq(the value of "%s" has %d bytes, the limit is %d: use the body\n), $name, length $value, LIMIT;
        $block .= pack 'v/a* v/a*', $key, $value;
    }
    length $block <= LIMIT
        or die sprintf "the keys and values take %d bytes, the limit is %d: use the body\n", length $block, LIMIT;
    return pack('CvC', 17, length $block, 0) . $block;
}

sub _bytes {
    my ($text) = @_;
    utf8::encode($text) if utf8::is_utf8($text);
    return $text;
}

1;
