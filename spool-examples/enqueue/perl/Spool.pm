# Stores tasks for spoold or uWSGI. Copy this file: it needs Perl 5.14 or later, and core modules only.
#
#   use Spool;
#   my $path = Spool::spool({ to => 'joe' }, '/var/spool/app', at => time + 60, priority => 5, body => 'hello');
package Spool;
use strict;
use warnings;
use Cwd qw(getcwd);
use Fcntl qw(O_RDONLY O_WRONLY O_CREAT O_EXCL O_DIRECTORY O_NOFOLLOW S_ISDIR S_ISLNK);
use IO::Handle;
use Sys::Hostname qw(hostname);
use Time::HiRes qw(gettimeofday);

use constant LIMIT => 0xFFFF;    # bytes: the size of the block and each length in it are 16-bit numbers
use constant { OTHERS_WRITE => 022, STICKY => 01000, MOST_LINKS => 40 };
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
# Root stores for the owner of the spool, whose daemon could not run a task of root's (Linux).
#
# Dies for invalid arguments, before anything is written, and if the task could not be stored.
sub spool {
    my ($dictionary, $spooler, %options) = @_;
    my $packet    = encode($dictionary, $options{at}, $options{priority});
    my $sync      = $options{sync} // 1;
    my ($top, $owner) = $> == 0 && -d '/proc/self/fd' ? _hold($spooler) : ();
    my $spool     = $top ? _path($top) : $spooler;
    my $directory = $spool;
    my $shown     = join '/', $spooler, $options{priority} // ();
    my $priority;
    if (defined $options{priority}) {
        $directory = "$spool/$options{priority}";
        mkdir $directory or $!{EEXIST} or die "$shown cannot be made: $!\n";    # 0777 minus the umask
        if ($top) {
            $priority  = _hold_priority($directory, $shown, $owner);
            $directory = _path($priority);
        }
    }
    my ($seconds, $micros) = gettimeofday();
    my $name = join '_', 'uwsgi_spoolfile_on', hostname(), $$, ++$counter, int rand 2**31, $seconds, $micros;

    # No daemon runs a file whose name begins with a dot; the rename publishes only a complete file.
    my $hidden = "$directory/.$name";
    eval {
        sysopen my $file, $hidden, O_WRONLY | O_CREAT | O_EXCL, 0600 or die "$!\n";
        binmode $file;
        if ($owner) { chown @$owner, $file or die "$!\n" }
        print {$file} $packet, _bytes($options{body} // '') and $file->flush or die "$!\n";

        # After the last write, which sets the mtime to now.
        if (defined $options{at}) { utime int $options{at}, int $options{at}, $file or die "$!\n" }
        if ($sync)                { $file->sync or die "$!\n" }
        close $file and rename $hidden, "$directory/$name" or die "$!\n";
        1;
    } or do {
        my $error = $@;
        unlink $hidden;
        die "the task could not be stored in $shown: $error";
    };
    if ($sync) {    # syncs the rename, and a new priority directory
        for my $each ($directory, $spool) {
            open my $handle, '<', $each or die "$shown cannot be opened: $!\n";
            $handle->sync or die "$shown cannot be synced: $!\n";
        }
    }
    return "$shown/$name";
}

# Opens the spool for root. Returns it with the uid and gid for which root stores there, undef for root itself. Root goes there
# from / by descriptors, and through no links but its own, because the owner of a directory on the way may exchange its entries
# at any time.
sub _hold {
    my ($path) = @_;
    my @rest = split m{/}, $path =~ m{\A/} ? $path : getcwd() . "/$path";
    my ($at, $stranger, $exchangeable, $links) = (_enter('/', $path), undef, 0, 0);
    while (@rest) {
        my $name = shift @rest;
        next if $name eq '' || $name eq '.';
        my $mode = (stat $at)[2];
        my ($kind, $names, $uid) = (lstat _path($at) . "/$name")[2, 3, 4] or die "$path: $!\n";
        my $others_write = $mode & OTHERS_WRITE;
        my $may_move     = $others_write && !($mode & STICKY);
        if (S_ISLNK($kind)) {
            defined $stranger || $uid != 0 || $may_move || ($others_write && $names > 1)
                and _refuse($path, "it is reached through a link of uid $uid, or one that others can exchange");
            ++$links <= MOST_LINKS or die "$path: too many links\n";
            my $text = readlink _path($at) . "/$name" // die "$path: $!\n";
            unshift @rest, split m{/}, $text;
            $name = $text =~ m{\A/} ? '/' : '.';
        }
        $at = _enter($name eq '/' ? $name : _path($at) . "/$name", $path);
        $exchangeable ||= $may_move;
        $stranger //= (stat $at)[4] || undef;
    }
    my ($uid, $gid) = (stat $at)[4, 5];
    if (defined $stranger) {
        $uid == $stranger or _refuse($path, "it belongs to uid $uid, and uid $stranger can exchange it");
        return ($at, [$uid, $gid]);
    }
    my ($kind, $daemon) = (lstat _path($at) . '/.spoold')[2, 4];
    return ($at, [$daemon, $gid]) if defined $kind && S_ISDIR($kind) && $daemon != 0;
    $exchangeable and _refuse($path, 'others can exchange it, because they may write in a directory above it');
    return ($at, undef);
}

# Opens a priority directory, and gives it to the owner if root has made it. It must be empty for that, because somebody may have
# put another directory of root's in its place.
sub _hold_priority {
    my ($path, $shown, $owner) = @_;
    my $directory = _enter($path, $shown);
    my $uid       = (stat $directory)[4];
    return $directory if !$owner || $uid == $owner->[0];
    opendir my $entries, _path($directory) or die "$shown: $!\n";
    $uid == 0 && 2 == grep { defined } readdir $entries
        or die "$shown belongs to uid $uid, and root stores for uid $owner->[0]: run this as that user\n";
    chown @$owner, $directory or die "$shown: $!\n";
    return $directory;
}

sub _refuse { my ($path, $fault) = @_; die "root stores nothing in $path: $fault; run this as the user of its daemon\n" }

sub _enter {
    my ($path, $shown) = @_;
    sysopen my $directory, $path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW or die "$shown: $!\n";
    return $directory;
}

# Returns a path of an open file that is right even if its name leads elsewhere meanwhile.
sub _path { my ($handle) = @_; return '/proc/self/fd/' . fileno $handle }

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
