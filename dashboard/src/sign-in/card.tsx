import { type ReactNode, useEffect, useRef } from 'react';
import { Banner } from '../shell/banner.tsx';

/** The frame of the pages for people who are not signed in. */
export function Card({ title, children }: { title: string; children: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Parley`;
  }, [title]);
  const content = useRef<HTMLElement>(null);
  useEffect(() => content.current?.querySelector('input')?.focus(), []);
  return (
    <>
      <Banner />
      <main ref={content} className="mx-auto flex min-h-[85dvh] w-full max-w-sm flex-col justify-center px-5 py-10">
        <img src="/dashboard/icon.svg" alt="Parley" className="mb-6 size-9" />
        <h1 className="mb-5 text-[1.5rem]">{title}</h1>
        {children}
      </main>
    </>
  );
}
