import * as fc from 'fast-check';

const seed = process.env['PROPERTY_SEED'];

if (seed !== undefined) fc.configureGlobal({ seed: Number(seed) });
