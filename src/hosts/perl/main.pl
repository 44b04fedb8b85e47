# Runs spooler functions for a worker of spoold, which starts this program and communicates over descriptors 3 to 6.
# It needs no more than Debian's perl-base.
use strict;
use warnings;

BEGIN { unshift @INC, __FILE__ =~ m{^(.*)/}s }
use Spoold::Loader;
use Spoold::Loop;
use Spoold::Output;
use Spoold::Process;
use Spoold::Wire;
use uwsgi;
BEGIN { $INC[0] .= '/library' }    # the host's modules are loaded, and user code must not find them; it finds the library

my $wire     = Spoold::Wire->new;
my $settings = $wire->read_settings;
Spoold::Process::prepare();

my $loop = Spoold::Loop->new($wire, $settings, Spoold::Output->new($wire));
uwsgi::_start($wire, $settings, $loop);
$loop->serve if Spoold::Loader::load($wire, $settings, $loop);

END { uwsgi::_end() }
