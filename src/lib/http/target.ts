/** A request target, cut into parts, both as they were sent. */
export interface SplitTarget {
  /** Encoded, and not normalised: `..` and `//` stay. */
  readonly path: string;
  /** Without the question mark; empty where there is none. */
  readonly query: string;
}

/**
 * Splits a request target into path and query.
 * @param target of the request line; with scheme and host when a proxy was asked (RFC 9112, section 3.2.2)
 */
export function splitTarget(target: string): SplitTarget {
  const local = target.replace(/^https?:\/\/[^/?#]*/i, '');
  const mark = local.indexOf('?');
  const [path, query] = mark === -1 ? [local, ''] : [local.slice(0, mark), local.slice(mark + 1)];
  return { path: path === '' ? '/' : path, query };
}
