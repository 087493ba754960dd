import { z } from 'zod';

/**
 * The service's answers as schemas (service specification, sections 2.1 to 2.5). They name the fields that this program needs and
 * keep all others: newer and older installations send other fields too.
 */

/** An ISO 8601 instant with an offset; the current API gives microseconds, v1 no fraction (sections 2.1 and 2.3). */
const instant = z.iso.datetime({ offset: true });

/** No name is longer than the longest path of a file system (Linux, PATH_MAX) or of a server's addresses (RFC 9110, 4.1). */
const name = z.string().min(1).max(4096);

/** A repository of the current API (section 2.1). `url` is null for a drag-and-drop repository. */
export const repositorySchema = z.looseObject({
  // Control characters in an id would make the keys of two targets equal.
  id: name.regex(/^\P{Cc}*$/u),
  name,
  full_name: name,
  url: z.string().nullish(),
  created_at: instant.nullish().catch(null),
});

/** The answer of `GET /repos` (section 4.1); the rows are validated one by one, so that one bad row hides no other. */
export const repositoriesSchema = z.array(z.unknown());

/** The latest version of a workbook (section 2.3). Only `id` and `branch` are needed to decide anything. */
const versionSchema = z.looseObject({
  id: z.string().min(1),
  branch: z.string().min(1),
  author: z.string().nullish().catch(null),
  action: z.string().nullish().catch(null),
  created_at: instant.nullish().catch(null),
  message: z.string().nullish().catch(null),
  status: z.string().nullish().catch(null),
  parent: z.looseObject({ id: z.string().nullish() }).nullish().catch(null),
});

/** A counter of section 2.4; absent or malformed counts as zero. */
const counter = z.number().int().nonnegative().catch(0);

/** The file of a version, as older installations describe it: its size in bytes and its SHA-256 (appendix). */
const fileSchema = z.looseObject({
  size: z.number().int().nonnegative().nullish().catch(null),
  digest: z
    .string()
    .regex(/^[0-9a-f]{64}$/i)
    .nullish()
    .catch(null),
});

/** A workbook of v1 (section 2.2); compiled, as there may be a million of them. */
export const workbookSchema = z.compile(
  z.looseObject({
    id: z.string().min(1),
    name: z.string().min(1),
    integration: z.string().min(1),
    display_name: z.string().nullish().catch(null),
    version: versionSchema,
    status: z.looseObject({ processing: counter, failure: counter }).nullish().catch(null),
    file: fileSchema.nullish().catch(null),
  }),
);

/** A page of v1 (section 2.5); the rows are validated one by one. */
export const pageSchema = z.looseObject({
  count: z.number().int().nonnegative(),
  next: z.string().nullish(),
  previous: z.string().nullish(),
  results: z.array(z.unknown()),
});

export type ApiWorkbook = z.infer<typeof workbookSchema>;
