# Memory that all workers of a daemon share: files without names, on the descriptors after those of the wire.
package Spoold::SharedAreas;
use strict;
use warnings;
use Fcntl qw(F_SETFD F_SETLKW F_RDLCK F_WRLCK F_UNLCK FD_CLOEXEC SEEK_SET O_RDWR);
use Spoold::Wire;

use constant FIRST_FD => 7;

# Opens the files again, because an inherited descriptor shares its position with other processes.
sub new {
    my ($class, @sizes) = @_;
    my @areas;
    for my $i (0 .. $#sizes) {
        my $fd = FIRST_FD + $i;
        sysopen(my $file, "/proc/self/fd/$fd", O_RDWR) or die "the shared area $i cannot be opened: $!\n";
        binmode $file;
        open(my $given, '+<&=', $fd) or die "descriptor $fd: $!\n";
        fcntl($given, F_SETFD, FD_CLOEXEC);
        push @areas, { file => $file, size => $sizes[$i], given => $given };
    }
    return bless \@areas, $class;
}

# Returns bytes of an area; undefined if there is no such area, or if they are not all within it.
sub read {
    my ($self, $number, $position, $length) = @_;
    my $area = $self->_area($number) or return undef;
    $length = $area->{size} - $position if !$length;
    return undef if $position < 0 || $length < 0 || $position + $length > $area->{size};
    return _locked(
        $area,
        F_RDLCK,
        sub {
            my ($file, $bytes) = ($area->{file}, '');
            sysseek($file, $position, SEEK_SET);
            while ($length > length $bytes) { sysread($file, $bytes, $length - length $bytes, length $bytes) or last }
            return $bytes;
        }
    );
}

sub write {
    my ($self, $number, $position, $bytes) = @_;
    my $area = $self->_area($number) or return 0;
    return 0 if $position < 0 || $position + length $bytes > $area->{size};
    return _locked(
        $area,
        F_WRLCK,
        sub {
            sysseek($area->{file}, $position, SEEK_SET);
            return defined syswrite($area->{file}, $bytes);
        }
    );
}

sub _area {
    my ($self, $number) = @_;
    return $number >= 0 && $number < @$self ? $self->[$number] : undef;
}

# Runs code while the area is locked, which a signal handler that dies would leave locked.
sub _locked {
    my ($area, $kind, $code) = @_;
    return Spoold::Wire::uninterrupted(sub {
        _lock($area, $kind);
        my $value = $code->();
        _lock($area, F_UNLCK);
        return $value;
    });
}

# Takes or releases a record lock over the whole file, with the struct flock of 64-bit Linux. Within a process, all descriptors of
# the file share the lock.
sub _lock {
    my ($area, $kind) = @_;
    fcntl($area->{file}, F_SETLKW, pack('s! s! x4 q q i x4', $kind, SEEK_SET, 0, 0, 0));
}

1;
