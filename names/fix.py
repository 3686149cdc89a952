"""After the batch: names inside attribute strings and format strings, doc links, paths and module paths in documents."""
import os,re,sys,json,glob,collections,subprocess
ROOT=sys.argv[1]
moves=json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)),'plan.json')))['moves']
def moved(f):
    # apply the longest folder moves repeatedly
    parts=f
    for o in sorted(moves,key=lambda x:-x.count('/')):
        pass
    # follow: file itself, then its folders from the deepest to the top
    out=moves.get(f,f)
    segs=f.split('/')
    name=out.split('/')[-1]
    path=[]
    for i in range(1,len(segs)):
        d='/'.join(segs[:i]); path.append(moves.get(d,d).split('/')[-1])
    return '/'.join(path+[name])
byfile=collections.defaultdict(dict); bycrate=collections.defaultdict(lambda: collections.defaultdict(set)); world=collections.defaultdict(set)
mods=collections.defaultdict(list)
member=collections.defaultdict(dict); memberfile=collections.defaultdict(dict)
for t in glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)),'*.tsv')):
    for l in open(t):
        p=[x.strip() for x in l.rstrip('\n').split('\t')]
        if len(p)<4: continue
        kind,f,sym,new=p[:4]
        old=re.split(r'::|\.',sym)[-1]
        crate=f.split('/')[1] if f.startswith('crates/') else 'xtask'
        if kind in('type','const','fn','mod'):
            byfile[moved(f)].setdefault(old,new)
            bycrate[crate][old].add(new); world[old].add(new)
        if '::' in sym or '.' in sym:
            owner=re.split(r'::|\.',sym)[-2]
            member[(crate,owner)][old]=new; member[('*',owner)].setdefault(old,new); memberfile[moved(f)].setdefault(old,new)
        if kind=='mod': mods[crate].append((f,old,new))
files=subprocess.check_output(['git','ls-files','--cached','--others','--exclude-standard'],cwd=ROOT,text=True).split('\n')
files=[f for f in files if f and os.path.isfile(os.path.join(ROOT,f))]
def lookup(f,name):
    m=byfile.get(f,{})
    if name in m: return m[name]
    crate=f.split('/')[1] if f.startswith('crates/') else 'xtask'
    c=bycrate[crate].get(name)
    if c and len(c)==1: return next(iter(c))
    return None
n=0
for f in files:
    if not f.endswith('.rs'): continue
    fp=os.path.join(ROOT,f); s=open(fp).read(); o=s
    decl=set(re.findall(r'\b(?:const|static)\s+([A-Z][A-Z0-9_]*)\b',s))|set(re.findall(r'\bfn\s+(\w+)',s))|set(re.findall(r'\b(?:struct|enum|type|trait)\s+(\w+)',s))
    imported=set(re.findall(r'\b([A-Z][A-Z0-9_]+)\b',' '.join(re.findall(r'^\s*(?:pub(?:\(crate\))? )?use [^;]*;',s,re.M|re.S))))
    def cap(m):
        name=m.group(1)
        if name in decl or name in imported: return m.group(0)
        new=lookup(f,name)
        return '{'+new+m.group(2) if new and new.isupper() else m.group(0)
    s=re.sub(r'\{([A-Z][A-Z0-9_]{2,})([}:])',cap,s)
    def attr(m):
        def path(q):
            segs=q.group(2).split('::'); out=[]
            for x in segs:
                if x in ('Option','Vec','String','crate','super','self') or x in decl: out.append(x); continue
                new=None
                if out:
                    for k,m_ in byfile.items():
                        if k.endswith('/'+out[-1]+'.rs') and k.split('/')[1]==f.split('/')[1] and x in m_: new=m_[x]
                out.append(new or lookup(f,x) or x)
            return q.group(1)+'"'+'::'.join(out)+'"'
        return re.sub(r'((?:deserialize_with|serialize_with|with|skip_serializing_if|try_from|from|into|default|schema_with|remote)\s*=\s*)"([\w:]+)"',path,m.group(0))
    s=re.sub(r'#\[(?:serde|schemars)\((?:[^\[\]]|\[[^\]]*\])*\)\]',attr,s)
    # doc links
    crate_=f.split('/')[1] if f.startswith('crates/') else 'xtask'
    def link(m):
        segs=m.group(1).split('::'); out=[]
        for i,x in enumerate(segs):
            x0=x.rstrip('()'); new=None
            if i:
                prev=segs[i-1].rstrip('()')
                if prev=='Self': new=memberfile.get(f,{}).get(x0)
                else: new=member.get((crate_,prev),{}).get(x0) or member.get(('*',prev),{}).get(x0)
                if new is None and prev and prev[0].isupper() and prev!='Self': out.append(x); continue
            if new is None:
                if x0 in decl: out.append(x); continue
                new=lookup(f,x0)
                if new is None and x0[:1].isupper() and len(world.get(x0,()))==1: new=next(iter(world[x0]))
            out.append(x.replace(x0,new) if new else x)
        return '[`'+'::'.join(out)+'`]'
    s='\n'.join(re.sub(r'\[`([\w:()]+)`\]',link,l) if l.lstrip().startswith('//') else l for l in s.split('\n'))
    if s!=o: open(fp,'w').write(s); n+=1
print('rust files fixed',n)
# paths in documents and strings
pm={}
allold=subprocess.check_output(['git','ls-tree','-r','--name-only','HEAD'],cwd=ROOT,text=True).split('\n')
for old in allold:
    if not old: continue
    new=moved(old)
    if new!=old: pm[old]=new
for o_,n_ in list(moves.items()):
    if not o_.endswith('.rs'): pm[o_+'/']=moved(o_)+'/' if False else None
pm={k:v for k,v in pm.items() if v}
short={}
for k,v in pm.items():
    if k.startswith('crates/'): short[k[len('crates/'):]]=v[len('crates/'):]
short.update(pm)
keys=sorted(short,key=lambda x:-len(x))
rx=re.compile(r'(?<![\w/-])('+'|'.join(map(re.escape,keys))+r')(?![\w])') if keys else None
n=0
for f in files:
    if not (f.endswith(('.md','.rs','.toml','.yaml','.json','.py','.ts')) ) or 'CHANGELOG' in f or f=='Cargo.lock': continue
    if '/testdata/' in f: continue
    fp=os.path.join(ROOT,f); s=open(fp).read()
    s2=rx.sub(lambda m: short[m.group(1)],s)
    if s2!=s: open(fp,'w').write(s2); n+=1
print('path mentions in',n,'files')
# module paths of tests in SPECIFICATION and docs: crate::mod::…
n=0
modmap=collections.defaultdict(dict)
for crate,l in mods.items():
    for f,old,new in l:
        # path of module from crate root
        inner=f.split('/src/')[-1] if '/src/' in f else None
        if inner is None: continue
        base=[] if inner in('lib.rs','main.rs') else inner[:-3].split('/')
        modmap[crate]['::'.join(base+[old])]=new
for f in files:
    if not f.endswith('.md') or 'CHANGELOG' in f: continue
    fp=os.path.join(ROOT,f); s=open(fp).read()
    def sub(m):
        segs=m.group(0).split('::'); crate=segs[0]
        if crate not in modmap: return m.group(0)
        out=[crate]
        for i in range(1,len(segs)):
            key='::'.join(segs[1:i+1])
            out.append(modmap[crate].get(key,segs[i]) if i<len(segs)-1 else segs[i])
        return '::'.join(out)
    s2=re.sub(r'\b[a-z_]+(?:::[a-z_0-9]+){2,}',sub,s)
    if s2!=s: open(fp,'w').write(s2); n+=1
print('module paths in',n,'documents')

# leftovers that the batch cannot know
SPECIAL=[('crates/cli/src/commands/skills/save.rs','check_schemas, promote}','check_schemas, promote_run}'),
('crates/cli/tests/it/egress/probes.rs','ProbeOutcome, door, records}','ProbeOutcome, run_egress_probes, run_records_probes}'),
('crates/engine/src/report/answer.rs','<[LeftFile]>','<[UncopiedFile]>'),
('crates/probe/tests/it/door.rs','catalogue, door}','catalogue, run_egress_probes}'),
('crates/store/src/writer.rs','busy_timeout: patience: busy_timeout','busy_timeout'),
('crates/probe/src/attempt/egress/leaks.rs','            egress::client::','            super::client::'),
('crates/gateway/src/redactor/tests.rs','> redactor::','> super::'),
]
for f,a,b in SPECIAL:
    fp=os.path.join(ROOT,f)
    s=open(fp).read()
    if a in s: open(fp,'w').write(s.replace(a,b))
    else: print('special not there',f,a)
