/** The reason why there is no page: the HTTP status, and a sentence for people. */
export class PageError extends Error {
  readonly status: 400 | 401 | 403 | 404 | 503

  constructor(status: PageError['status'], message: string) {
    super(message)
    this.status = status
  }
}
