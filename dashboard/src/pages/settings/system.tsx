import { CopyId } from '../../parts/copy.tsx';
import { Fact } from '../../parts/fact.tsx';
import { bytes, count } from '../../parts/format.ts';
import { Failure, Waiting } from '../../parts/page.tsx';
import { Time } from '../../parts/time.tsx';
import { useRead } from '../../server/queries.ts';
import type { SystemInformation } from '../../server/types.ts';

export function SystemFacts() {
  const { data, error } = useRead<SystemInformation>('/dashboard/api/system', { refetchInterval: 10_000 });
  if (data === undefined) return error === null ? <Waiting /> : <Failure error={error} />;
  return (
    <>
      {error !== null && <Failure error={error} />}
      <dl className="grid max-w-2xl grid-cols-[auto_1fr] gap-x-8 gap-y-2">
        <Fact label="Parley">{data.version}</Fact>
        <Fact label="Database">{data.database}</Fact>
        <Fact label="Runtime">
          Node {data.node}, {data.platform}
        </Fact>
        <Fact label="Process">
          <CopyId value={data.process_id} />
        </Fact>
        <Fact label="Started">
          <Time at={data.started_at} />
        </Fact>
        <Fact label="Memory">{bytes(data.memory_bytes)}</Fact>
        <Fact label="Public URL">{data.public_url ?? 'not set'}</Fact>
        <Fact label="Gateway">{data.gateway ? 'on' : 'off'}</Fact>
        <Fact label="Rate limit">{data.rate_limit_rps === 0 ? 'off' : `${count(data.rate_limit_rps)} requests a second`}</Fact>
        <Fact label="Concurrent turns">{count(data.max_turns)}</Fact>
        <Fact label="Private upstreams">{data.private_upstreams ? 'allowed' : 'refused'}</Fact>
      </dl>
    </>
  );
}
