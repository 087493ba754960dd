/** A request target, cut into parts, both as they were sent. */
export interface SplitTarget {
  /** Encoded, and not normalised: `..` and `//` stay. */
  readonly path: string;
  /** Without the question mark; empty if there is no query. */
  readonly query: string;
}

/**
 * Splits a request target into path and query.
 * @param target from the request line; with scheme and host if it came for a proxy (RFC 9112, section 3.2.2)
 */
export function splitTarget(target: string): SplitTarget {
  const local = target.replace(/^https?:\/\/[^/?#]*/i, '');
  const mark = local.indexOf('?');
  const [path, query] = mark === -1 ? [local, ''] : [local.slice(0, mark), local.slice(mark + 1)];
  return { path: path === '' ? '/' : path, query };
}
