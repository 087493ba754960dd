import { RequestError } from '../../lib/http/request-error.ts';
import type { Repository } from './library.ts';
import type { ContentsReference } from './routes.ts';

/**
 * Finds the repository that a `{repo}` means: its id, its full name, or its short name where that is unique (service
 * specification, section 4.1, leaves it open). The unambiguous ones come first.
 * @returns undefined when none is meant
 * @throws RequestError 409 for a short name that several repositories share
 */
export function findRepository(
  repositories: readonly Repository[],
  reference: string,
): Repository | undefined {
  const exact =
    repositories.find(({ id }) => id === reference) ??
    repositories.find(({ full_name }) => full_name === reference);
  if (exact !== undefined) return exact;
  const named = repositories.filter(({ name }) => name === reference);
  if (named.length > 1) {
    const names = named.map(({ full_name }) => full_name).join(', ');
    throw new RequestError(
      409,
      'ambiguous',
      `several repositories are called ${reference}: use one of ${names}`,
    );
  }
  return named[0];
}

/** The length of the longest text by which one of the repositories can be meant. */
function longestReference(repositories: readonly Repository[]): number {
  return repositories.reduce(
    (longest, { id, name, full_name }) => Math.max(longest, id.length, name.length, full_name.length),
    0,
  );
}

/**
 * Finds the first reference of a contents path that names a repository. No more of them are looked at than the names of repositories
 * are long.
 * @param references in the order of preference, each reference longer than the one before
 * @throws RequestError 404 when none does, 409 as {@link findRepository}
 */
export function chooseReference(
  repositories: readonly Repository[],
  references: Iterable<ContentsReference>,
): { readonly repository: Repository; readonly path: string } {
  const longest = longestReference(repositories);
  let asked: string | null = null;
  for (const candidate of references) {
    const { reference } = candidate;
    asked ??= reference;
    if (reference.length > longest) break;
    const repository = findRepository(repositories, reference);
    if (repository !== undefined) return { repository, path: candidate.path };
  }
  throw new RequestError(404, 'repository_not_found', `there is no repository ${asked ?? ''}`);
}
