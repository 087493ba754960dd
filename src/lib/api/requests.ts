/** The two generations of the API (service specification, section 9): each has its own base, credential and header. */
export type Generation = 'current' | 'v1';

/** The kinds of keys. */
export const KEY_KINDS = ['personal', 'group', 'token'] as const;

/** The use of a key (service specification, section 5): the current API, incoming webhooks only, or v1. */
export type KeyKind = (typeof KEY_KINDS)[number];

/** The request header that carries a generation's credential (section 5), in the lower case that HTTP libraries give. */
export const CREDENTIAL_HEADERS: Readonly<Record<Generation, string>> = {
  current: 'x-api-key',
  v1: 'authorization',
};

/**
 * The header in which a replica says when its answer was last known to equal the original's, ISO 8601. The service
 * itself never sends it. In a replica's archives, files have the times of the mirror, and not the archiver's.
 */
export const LAST_VERIFIED_HEADER = 'last-verified';

/** Where a user makes a generation's credential (sections 5.1 and 5.2). */
export const CREDENTIAL_PLACES: Readonly<Record<Generation, string>> = {
  current: 'Access > API Key',
  v1: 'Organization > Personal API Token',
};

/** Path of the list of repositories below the base address (section 4.1). */
export const REPOSITORIES_PATH = '/repos';

/**
 * The same path by the other name, `/repositories`: newer installations accept both, and some only this one.
 * @param target a path of the current API below the base address
 */
export function underOtherName(target: string): string {
  return target.replace(/^\/repos(?=[/?]|$)/, '/repositories');
}

/** Path of the list of workbooks below the base address (section 4.2). */
export const WORKBOOKS_PATH = '/v1/workbooks';

/**
 * The headers of every request of a generation (section 5). A cache on the way must ask the service before it answers (RFC 9111,
 * section 5.2.1.4): an old list would pass for the present one.
 */
export function requestHeaders(generation: Generation, credential: string): Record<string, string> {
  return {
    [CREDENTIAL_HEADERS[generation]]: credential,
    accept: 'application/json',
    'content-type': 'application/json',
    'cache-control': 'no-cache',
  };
}

/** Encodes each segment of a path and keeps its slashes. */
function encodePath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/');
}

/**
 * Path of a repository's contents below the base address (section 4.1).
 * @param reference the `{repo}` part, already encoded
 * @param path a folder or workbook inside the repository, or nothing for the whole of it
 * @param branch the branch, or nothing for the service's answer without one
 */
export function contentsPath(reference: string, path?: string, branch?: string): string {
  const inner = path === undefined || path === '' ? '' : `/${encodePath(path)}`;
  const query = branch === undefined ? '' : `?${new URLSearchParams({ branch }).toString()}`;
  return `/repos/${reference}/contents${inner}${query}`;
}

/** The values of the status filter of `GET /v1/workbooks` (section 4.2). */
export const WORKBOOK_STATUS_FILTERS = ['processing', 'failure'] as const;
export type WorkbookStatusFilter = (typeof WORKBOOK_STATUS_FILTERS)[number];

/** Path of the list of workbooks, filtered by status if asked (section 4.2). */
export function workbooksPath(status?: WorkbookStatusFilter): string {
  return status === undefined
    ? WORKBOOKS_PATH
    : `${WORKBOOKS_PATH}?${new URLSearchParams({ status }).toString()}`;
}
