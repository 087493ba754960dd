import { z } from 'zod';

import { WORKBOOK_STATUS_FILTERS } from '../../lib/api/requests.ts';
import { isTargetPath } from '../../lib/paths/file-name.ts';
import { approvalSchema } from '../../mirror/plan/guard.ts';

/** The path of a target, as below `mirror/`. */
const path = z.string().refine(isTargetPath);

/** Names of targets, as a person gives them. */
const names = z.array(z.string()).readonly();

const nothing = z.strictObject({});
const named = z.strictObject({ targets: names });

/** `target`: null for all; `beforeMs`: only states that left the mirror before this time, in milliseconds since the epoch. */
const prunedStates = z.strictObject({ target: path.nullable(), beforeMs: z.number() });

/** The request of each task, by its name. */
export const REQUESTS = {
  /** `targets`: tried and repaired even if they wait; all if omitted. A name without a known target waits for the pass, which may find it. */
  poll: z.strictObject({ targets: names.optional(), wait: z.boolean().default(false) }),
  status: nothing,
  plan: nothing,
  diff: z.strictObject({ target: z.string() }),
  /** `targets`: all if omitted; `expect`: how many the directory must have, any number but none if omitted. */
  repair: z.strictObject({
    targets: z.array(path).readonly().optional(),
    expect: z.int().min(0).optional(),
  }),
  held: nothing,
  /** Each by its field `approval` of the task `held`. */
  approve: z.strictObject({ approvals: z.array(approvalSchema).readonly() }),
  forgettable: named,
  forget: named,
  prunable: prunedStates,
  prune: prunedStates,
  repos: nothing,
  /** Service specification, section 4.1. */
  'repos/create': z.union([
    z.strictObject({ name: z.string() }),
    z.strictObject({ url: z.string(), username: z.string().optional(), password: z.string().optional() }),
  ]),
  workbooks: z.strictObject({ status: z.enum(WORKBOOK_STATUS_FILTERS).optional() }),
  /** `withWrongKey`: also ask without a key, and with one that is made up; `maxRequests`: most requests in all. */
  probe: z.strictObject({ withWrongKey: z.boolean().default(false), maxRequests: z.int().min(1) }),
};

/** The checked request of a task. */
export type RequestOf<Name extends keyof typeof REQUESTS> = z.output<(typeof REQUESTS)[Name]>;
