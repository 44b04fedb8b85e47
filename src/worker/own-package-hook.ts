const OURS = /^spoold(\/|$)/

/** The hook for Node before 22.15, which runs it in a thread of its own, where `import.meta.resolve` is not to be had. */
export function resolve(
  specifier: string,
  context: object,
  next: (specifier: string, context: object) => unknown,
): unknown {
  return next(specifier, OURS.test(specifier) ? { ...context, parentURL: import.meta.url } : context)
}
