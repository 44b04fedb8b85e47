/**
 * The source of `hookKoffi(around)`, for a file that Node loads before the program. It routes the calls of libc through
 * `around(name, target, proceed)`. The name is that of the same function of node:fs, and the target is a path or a descriptor.
 * If `around` throws an error with an errno's name as its `code`, the call fails with that errno.
 */
export const HOOK_KOFFI = `
const hookKoffi = around => {
  const [{ readlinkSync }, { constants: { errno: numbers } }] = ['node:fs', 'node:os'].map(name => process.getBuiltinModule(name))
  const at = (directory, name) => {
    const text = typeof name === 'string' ? name : name.toString('latin1', 0, name.indexOf(0))
    return directory < 0 || text.startsWith('/') ? text : readlinkSync('/proc/self/fd/' + directory) + '/' + text
  }
  const words = {
    openat: args => ['openSync', at(args[0], args[1])],
    statx: args => (args[1] === '' ? ['fstatSync', args[0]] : ['lstatSync', at(args[0], args[1])]),
    pread: args => ['readSync', args[0]],
    pwrite: args => ['writeSync', args[0]],
    unlinkat: args => ['unlinkSync', at(args[0], args[1])],
    renameat: args => ['renameSync', at(args[0], args[1])],
    renameat2: args => ['renameSync', at(args[0], args[1])],
    getdents64: args => ['readdirSync', readlinkSync('/proc/self/fd/' + args[0])],
  }
  const { dlopen } = process
  process.dlopen = function (module, file, ...more) {
    dlopen.call(this, module, file, ...more)
    if (!file.endsWith('/koffi.node')) return
    const { load, errno } = module.exports
    const func = library => (name, ...types) => {
      const call = library.func(name, ...types)
      if (words[name] === undefined) return call
      const hooked = (args, proceed, failed) => {
        try {
          return around(...words[name](args), proceed)
        } catch (error) {
          if (numbers[error.code] === undefined) throw error
          errno(numbers[error.code])
          return failed()
        }
      }
      return Object.assign((...args) => hooked(args, () => call(...args), () => -1), {
        async: (...args) => hooked(args, () => call.async(...args), () => args.at(-1)(null, -1)),
      })
    }
    module.exports = { ...module.exports, load: (...args) => ({ func: func(load(...args)) }) }
  }
}
`
