"""The host, and modules of the library that need nothing else of it: these are found here, too."""

import os

__path__.append(os.path.join(os.path.dirname(os.path.dirname(__file__)), 'library', 'spoold'))
