# Runs the files that the configuration names, in uWSGI's order (plugins/psgi/psgi_loader.c, psgi_plugin.c).
package Spoold::Loader;
use strict;
use warnings;
use Cwd qw(getcwd);
use Spoold::Wire;

# Tells the worker how it went. True when tasks may come.
sub load {
    my ($wire, $settings) = @_;
    my $home = getcwd();
    my $loaded = eval {
        _run($_, $home) for @{ $settings->{'perl-exec'} // [] }, @{ $settings->{'perl-exec-post-fork'} // [] };
        uwsgi::_postfork();
        1;
    };
    if   ($loaded) { $wire->send(Spoold::Wire::READY) }
    else           { $wire->send(Spoold::Wire::UNLOADABLE, 0, $@ =~ s/\s+\z//r) }
    return $loaded;
}

sub _run {
    my ($file, $home) = @_;
    my $path = $file =~ m{^/} ? $file : "$home/$file";
    open(my $readable, '<', $path) or die "$path: $!\n";
    close $readable;
    # $0 is the file, as in uWSGI, for FindBin; an alias, so that the process keeps its name in ps
    *main::0 = \$path;
    _do($path);
    die "$@" if "$@" ne '';
}

# Apart: the file sees no variable of ours, and begins in the package that is current where it is called.
sub _do { package main; do $_[0] }

1;
