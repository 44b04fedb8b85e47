using System;
using System.Collections;
using System.ComponentModel;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Runtime.InteropServices;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;

/// <summary>
/// Stores tasks for spoold or uWSGI. Copy this file: it needs Mono 6 or .NET on Linux (x64, arm64), and no package.
/// <code>Spool.Write(new Dictionary&lt;string, string> { ["to"] = "joe" }, "/var/spool/app", at: 1700000000, priority: "5");</code>
/// </summary>
public static class Spool
{
    /// <summary>Bytes: the size of the block and each length in it are 16-bit numbers.</summary>
    public const int Limit = 0xFFFF;

    static int counter;
    static readonly Random random = new Random();

    /// <summary>Stores one task, and returns the path of its file.</summary>
    /// <param name="dictionary">keys and values, in its order; a byte[] unchanged, anything else as text in UTF-8</param>
    /// <param name="spooler">the spool directory, which has to exist</param>
    /// <param name="at">do not run before this time: epoch seconds, may have a fraction</param>
    /// <param name="priority">the priority directory, digits only; lower runs first with spooler-ordered</param>
    /// <param name="body">the body, of any size</param>
    /// <param name="sync">return only once the task is on disk, where it survives a power failure</param>
    /// <exception cref="ArgumentException">for invalid arguments, before anything is written</exception>
    /// <exception cref="IOException">if the task could not be stored</exception>
    public static string Write(IDictionary dictionary, string spooler, double? at = null, string priority = null,
        byte[] body = null, bool sync = true)
    {
        byte[] packet = Encode(dictionary, at, priority);
        string directory = priority == null ? spooler : spooler + "/" + priority;
        if (priority != null && mkdir(directory, 511) != 0 && !Directory.Exists(directory)) // 0777 minus the umask
            throw Failure(directory);
        string name = TaskName();
        // No daemon runs a file whose name begins with a dot; the rename publishes only a complete file.
        string hidden = directory + "/." + name, path = directory + "/" + name;
        try
        {
            using (var file = Create(hidden))
            {
                file.Write(packet, 0, packet.Length);
                if (body != null) file.Write(body, 0, body.Length);
                file.Flush();
                if (at != null) SetTimes(hidden, (long)at.Value); // after the last write, which sets the mtime to now
                if (sync) file.Flush(true);
            }
            if (rename(hidden, path) != 0) throw Failure(path);
        }
        catch
        {
            File.Delete(hidden);
            throw;
        }
        if (sync) // syncs the rename, and a new priority directory
            foreach (string each in new[] { directory, spooler }) SyncDirectory(each);
        return path;
    }

    /// <summary>The packet: u8 17, u16 size, u8 0, then pairs of ( u16 length, key, u16 length, value ), little endian.</summary>
    public static byte[] Encode(IDictionary dictionary, double? at, string priority)
    {
        var packet = new MemoryStream();
        packet.Write(new byte[] { 17, 0, 0, 0 }, 0, 4);
        foreach (DictionaryEntry pair in dictionary)
        {
            string name = Encoding.UTF8.GetString(Bytes(pair.Key));
            if (name == "at" || name == "priority" || name == "body")
                throw new ArgumentException("the key \"" + name + "\" is not for the dictionary: give it as an argument");
            PutPair(packet, pair.Key, pair.Value);
        }
        if (at != null)
        {
            if (!(at >= 0 && at < 1e15)) throw new ArgumentException("at must be epoch seconds, got " + at);
            PutPair(packet, "at", at.Value.ToString("R", CultureInfo.InvariantCulture));
        }
        if (priority != null)
        {
            if (!Regex.IsMatch(priority, @"\A[0-9]+\z")) throw new ArgumentException("priority must be digits, got " + priority);
            PutPair(packet, "priority", priority);
        }
        int size = (int)packet.Length - 4;
        if (size > Limit)
            throw new ArgumentException("the keys and values take " + size + " bytes, the limit is " + Limit + ": use the body");
        byte[] bytes = packet.ToArray();
        bytes[1] = (byte)size;
        bytes[2] = (byte)(size >> 8);
        return bytes;
    }

    static void PutPair(Stream packet, object key, object value)
    {
        byte[] bytes = Bytes(key);
        string name = Encoding.UTF8.GetString(bytes, 0, Math.Min(40, bytes.Length));
        if (bytes.Length == 0) throw new ArgumentException("a key is empty");
        if (value == null) throw new ArgumentException("the value of \"" + name + "\" is null");
        Put(packet, "the key \"" + name + "\"", bytes);
        Put(packet, "the value of \"" + name + "\"", Bytes(value));
    }

    static void Put(Stream packet, string what, byte[] bytes)
    {
        if (bytes.Length > Limit)
            throw new ArgumentException(what + " has " + bytes.Length + " bytes, the limit is " + Limit + ": use the body");
        packet.WriteByte((byte)bytes.Length);
        packet.WriteByte((byte)(bytes.Length >> 8));
        packet.Write(bytes, 0, bytes.Length);
    }

    static byte[] Bytes(object value)
    {
        return value as byte[] ?? Encoding.UTF8.GetBytes(Convert.ToString(value, CultureInfo.InvariantCulture));
    }

    static string TaskName()
    {
        long micros = (DateTime.UtcNow - Epoch).Ticks / 10;
        int number = Interlocked.Increment(ref counter), luck;
        lock (random) luck = random.Next();
        return string.Format("uwsgi_spoolfile_on_{0}_{1}_{2}_{3}_{4}_{5}", Environment.MachineName,
            Process.GetCurrentProcess().Id, number, luck, micros / 1000000, micros % 1000000);
    }

    static readonly DateTime Epoch = new DateTime(1970, 1, 1, 0, 0, 0, DateTimeKind.Utc);

    static void SetTimes(string path, long seconds)
    {
        File.SetLastAccessTimeUtc(path, Epoch.AddSeconds(seconds));
        File.SetLastWriteTimeUtc(path, Epoch.AddSeconds(seconds));
    }

    // .NET creates files with mode 0644, and cannot sync directories, so this uses the C library.
    [DllImport("libc", SetLastError = true)] static extern int open(string path, int flags, int mode);
    [DllImport("libc", SetLastError = true)] static extern int mkdir(string path, int mode);
    [DllImport("libc", SetLastError = true)] static extern int rename(string from, string to);
    [DllImport("libc", SetLastError = true)] static extern int fsync(int fd);

    [DllImport("libc", SetLastError = true)] static extern int close(int fd);

    static FileStream Create(string path)
    {
        int fd = open(path, 0x80000 | 0x80 | 0x40 | 0x1, 384); // O_CLOEXEC | O_EXCL | O_CREAT | O_WRONLY, 0600
        if (fd < 0) throw Failure(path);
        close(fd);
        return new FileStream(path, FileMode.Open, FileAccess.Write);
    }

    static void SyncDirectory(string path)
    {
        int fd = open(path, 0x80000, 0); // O_CLOEXEC | O_RDONLY
        if (fd < 0 || fsync(fd) != 0) throw Failure(path);
        close(fd);
    }

    static IOException Failure(string path)
    {
        return new IOException(path + ": " + new Win32Exception(Marshal.GetLastWin32Error()).Message);
    }
}
