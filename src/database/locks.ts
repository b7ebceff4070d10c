/** The advisory locks of an installation. Each purpose has its own number, so that no two of them wait for each other. */
export const locks = {
  /** One process migrates at a time. */
  migration: 7_265_746,
  /** With an org's id: its audit events are chained one after the other. */
  auditChain: 7_265_747,
  /** One process creates the first organization. */
  firstStart: 7_265_748,
  signingKeys: 7_265_749,
  /** With a hash of the instance: one upload at a time is checked against the limits of the workspace. */
  workspace: 7_265_750,
  /** Every server on PostgreSQL holds it shared while connected. Work that needs all servers stopped takes it exclusively. */
  serving: 7_265_751,
} as const;
