/** The advisory locks of an installation. Each number stands for one thing, so that nobody waits for a stranger. */
export const locks = {
  /** One process migrates at a time. */
  migration: 7_265_746,
  /** Together with an org's id: one audit event follows another. */
  auditChain: 7_265_747,
  /** An empty database is filled once. */
  firstStart: 7_265_748,
  signingKeys: 7_265_749,
  /** Together with a hash of the instance: one upload at a time is held against the limits of its workspace. */
  workspace: 7_265_750,
  /** Shared by every server on PostgreSQL while it is connected: what needs them all stopped takes it alone. */
  serving: 7_265_751,
} as const;
