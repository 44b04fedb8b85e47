<?php

declare(strict_types=1);

/**
 * Stores tasks for spoold or uWSGI. Copy this file: it needs PHP 8.1 or later on Linux, and no extension.
 *
 *     require 'spool.php';
 *     $path = spool(['to' => 'joe'], '/var/spool/app', at: time() + 60, priority: '5', body: 'hello');
 */

/** Bytes: the size of the block and each length in it are 16-bit numbers. */
const SPOOL_LIMIT = 0xFFFF;

/**
 * Stores one task.
 *
 * @param array<string|int, string|int|float> $dictionary keys and values, in order
 * @param string $spooler the spool directory, which has to exist
 * @param int|float|null $at do not run before this time: epoch seconds, may have a fraction
 * @param string|int|null $priority the priority directory, digits only; lower runs first if the daemon has spooler-ordered
 * @param string $body the body, of any size
 * @param bool $sync return only once the task is on disk, where it survives a power failure
 * @return string the path of its file
 * @throws InvalidArgumentException for invalid arguments, before anything is written
 * @throws RuntimeException if the task could not be stored
 */
function spool(
    array $dictionary,
    string $spooler,
    int|float|null $at = null,
    string|int|null $priority = null,
    string $body = '',
    bool $sync = true,
): string {
    static $counter = 0;
    $packet = spool_encode($dictionary, $at, $priority);
    $directory = $priority === null ? $spooler : "$spooler/$priority";
    if ($priority !== null && !@mkdir($directory) && !is_dir($directory)) { // 0777 minus the umask
        throw new RuntimeException("$directory cannot be made: " . error_get_last()['message']);
    }
    $now = gettimeofday();
    $name = implode('_', ['uwsgi_spoolfile_on', gethostname(), getmypid(), ++$counter, random_int(0, 0x7FFFFFFF), $now['sec'], $now['usec']]);
    // No daemon runs a file whose name begins with a dot; the rename publishes only a complete file.
    [$hidden, $path] = ["$directory/.$name", "$directory/$name"];
    $umask = umask(0177); // fopen takes no mode: create the file with 0600
    $file = @fopen($hidden, 'xb');
    umask($umask);
    $stored = $file !== false
        && @fwrite($file, $packet . $body) === strlen($packet) + strlen($body)
        && fflush($file)
        && ($at === null || touch($hidden, (int) $at, (int) $at)) // after the last write, which sets the mtime to now
        && (!$sync || fsync($file))
        && fclose($file)
        && rename($hidden, $path);
    if (!$stored) {
        $reason = error_get_last()['message'] ?? 'unknown error';
        @unlink($hidden);
        throw new RuntimeException("the task could not be stored in $directory: $reason");
    }
    foreach ($sync ? array_unique([$directory, $spooler]) : [] as $each) { // syncs the rename, and a new priority directory
        fsync(fopen($each, 'r')) || throw new RuntimeException("$each cannot be synced");
    }
    return $path;
}

/** The packet: u8 17, u16 size, u8 0, then pairs of ( u16 length, key, u16 length, value ), little endian. */
function spool_encode(array $dictionary, int|float|null $at, string|int|null $priority): string
{
    foreach (['at', 'priority', 'body'] as $key) {
        if (array_key_exists($key, $dictionary)) {
            throw new InvalidArgumentException("the key \"$key\" is not for the dictionary: give it as an argument");
        }
    }
    if ($at !== null) {
        if (!is_finite($at) || $at < 0) {
            throw new InvalidArgumentException("at must be epoch seconds, got $at");
        }
        $dictionary['at'] = rtrim(rtrim(sprintf('%.6F', $at), '0'), '.');
    }
    if ($priority !== null) {
        if (!preg_match('/\A[0-9]+\z/', (string) $priority)) {
            throw new InvalidArgumentException("priority must be digits, got $priority");
        }
        $dictionary['priority'] = $priority;
    }
    $block = '';
    foreach ($dictionary as $key => $value) {
        [$key, $value] = [(string) $key, (string) $value];
        $name = substr($key, 0, 40);
        if ($key === '') {
            throw new InvalidArgumentException('a key is empty');
        }
        foreach (["the key \"$name\"" => $key, "the value of \"$name\"" => $value] as $what => $bytes) {
            if (strlen($bytes) > SPOOL_LIMIT) {
                throw new InvalidArgumentException("$what has " . strlen($bytes) . ' bytes, the limit is ' . SPOOL_LIMIT . ': use the body');
            }
            $block .= pack('v', strlen($bytes)) . $bytes;
        }
    }
    if (strlen($block) > SPOOL_LIMIT) {
        throw new InvalidArgumentException('the keys and values take ' . strlen($block) . ' bytes, the limit is ' . SPOOL_LIMIT . ': use the body');
    }
    return pack('CvC', 17, strlen($block), 0) . $block;
}
