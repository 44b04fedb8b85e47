declare module 'fs-native-extensions' {
  /** A non-blocking exclusive F_OFD_SETLK over the whole file; false when somebody else holds any part of it. */
  export function tryLock(
    fd: number,
    offset?: number,
    length?: number,
    options?: { shared?: boolean },
  ): boolean
  /** F_OFD_SETLK with F_UNLCK over the whole file. */
  export function unlock(fd: number): void
}
