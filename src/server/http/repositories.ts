import type { Repository } from './library.ts';

/** The fields of a repository that the API shows (service specification, section 2.1). */
export function presentRepository({ id, name, full_name, url, created_at }: Repository): Repository {
  return { id, name, full_name, url, created_at };
}
