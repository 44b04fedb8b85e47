const OURS = /^spoold(\/|$)/

/**
 * The module hook for Node before 22.15, which runs it in a separate thread, where `import.meta.resolve` is not
 * available.
 */
export function resolve(
  specifier: string,
  context: object,
  next: (specifier: string, context: object) => unknown,
): unknown {
  return next(specifier, OURS.test(specifier) ? { ...context, parentURL: import.meta.url } : context)
}
