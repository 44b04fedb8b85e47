import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { interpreterOf, libcFault } from '#src/system/libc.js'
import { withoutKoffi } from '../helpers/elsewhere.js'
import { workspace } from '../helpers/workspace.js'

/** Writes the beginning of an ELF program. @param interpreter its ELF interpreter; null: it is linked statically */
function program(interpreter: string | null, { segments = 64, bits = 2, order = 1 } = {}): string {
  const at = segments + 2 * 56
  const bytes = Buffer.alloc(at + 256)
  bytes.write('\x7fELF', 'latin1')
  bytes.set([bits, order, 1], 4)
  bytes.writeBigUInt64LE(BigInt(segments), 32) // where the program headers begin, how long each is, and how many there are
  bytes.writeUInt16LE(56, 54)
  bytes.writeUInt16LE(2, 56)
  bytes.writeUInt32LE(1, segments) // PT_LOAD
  if (interpreter !== null) {
    const header = segments + 56
    bytes.writeUInt32LE(3, header) // PT_INTERP
    bytes.writeBigUInt64LE(BigInt(at), header + 8)
    bytes.writeBigUInt64LE(BigInt(interpreter.length + 1), header + 32)
    bytes.write(interpreter, at, 'latin1')
  }
  const path = join(workspace(), 'program')
  writeFileSync(path, bytes)
  return path
}

describe('the libc of Node', () => {
  it('is known from the ELF interpreter of the program', () => {
    const GLIBC = '/lib64/ld-linux-x86-64.so.2'
    assert.equal(interpreterOf(program(GLIBC)), GLIBC)
    assert.equal(interpreterOf(program('/lib/ld-musl-x86_64.so.1')), '/lib/ld-musl-x86_64.so.1')
    assert.equal(
      interpreterOf(program(GLIBC, { segments: 1_000_000 })),
      GLIBC,
      'with program headers at the end, as patchelf leaves them',
    )
    assert.throws(() => interpreterOf(program(null)), /linked statically/)
    assert.throws(() => interpreterOf(program(GLIBC, { bits: 1 })), /64-bit/)
    assert.throws(() => interpreterOf(program(GLIBC, { order: 2 })), /little-endian/)
    const script = join(workspace(), 'script')
    writeFileSync(script, '#!/bin/sh\n')
    assert.throws(() => interpreterOf(script), /not a program/)
    assert.throws(() => interpreterOf('/nowhere'), { code: 'ENOENT' })
  })

  /** Returns what Node prints if it takes this for its own program. @param then runs when the first binary is loaded */
  function loadedBy(execPath: string, then = 'process.exit()'): string {
    const code = `
      process.dlopen = (_module, file) => {
        console.log(file)
        ${then}
      }
      process.execPath = ${JSON.stringify(execPath)}
      const { libcFault } = await import(${JSON.stringify(import.meta.resolve('#src/system/libc.js'))})
      console.log(libcFault())`
    return spawnSync(process.execPath, ['--input-type=module', '-e', code], { encoding: 'utf8' }).stdout
  }

  const skip = libcFault() !== undefined && 'there is no libc'
  it('decides which koffi binary is loaded', { skip }, () => {
    const { arch } = process
    assert.match(
      loadedBy(process.execPath),
      new RegExp(`/koffi-linux-${arch}/(linux|musl)_${arch}/koffi.node\n$`),
    )
    assert.match(loadedBy(program('/lib/ld-musl-x86_64.so.1')), new RegExp(`/musl_${arch}/koffi.node\n$`))
    assert.match(loadedBy(program('/lib64/ld-linux-x86-64.so.2')), new RegExp(`/linux_${arch}/koffi.node\n$`))
    assert.match(loadedBy(program(null)), /linked statically/)
  })

  it('is the only one whose koffi binary is tried, and an error of loading it is reported', { skip }, () => {
    const musl = loadedBy(program('/lib/ld-musl-x86_64.so.1'), "throw new Error('no libstdc++')")
    assert.match(musl, new RegExp(`^\\S+/musl_${process.arch}/koffi.node\nno libstdc\\+\\+\n$`))
  })

  it('is not called if koffi is not installed', () => {
    const code = `
      const { libcFault, systemCalls } = await import(${JSON.stringify(import.meta.resolve('#src/system/libc.js'))})
      console.log(systemCalls().isLibc, libcFault())`
    const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
      encoding: 'utf8',
      env: { ...process.env, ...withoutKoffi() },
    })
    assert.match(stdout, /^false koffi is not installed/)
  })
})
