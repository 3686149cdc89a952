import re,subprocess,os,sys,collections
root=sys.argv[1]
files=[f for f in subprocess.check_output(['git','ls-files','*.rs'],cwd=root,text=True).split() if not('/tests/' in f or f.endswith('tests.rs') or f.startswith('fuzz') or 'peers/' in f)]
fields={};methods=collections.Counter()
for f in files:
    cur=None;t=open(os.path.join(root,f)).read().split('\n')
    crate=f.split('/')[1] if f.startswith('crates') else 'xtask'
    for i,l in enumerate(t):
        m=re.match(r'^(\s*)(?:pub(?:\([^)]*\))? )?struct (\w+).*\{$',l)
        if m and not cur: cur=('s',m.group(1),m.group(2));n=0;continue
        m=re.match(r'^(\s*)impl(?:<.*?>)? (?:\w+::)*(\w+)(?:<.*>)?\s*(?:\{|where|$)',l)
        if m and ' for ' not in l and not cur:
            cur=('i',m.group(1),m.group(2));n=0;continue
        if cur:
            if l==cur[1]+'}':
                if cur[0]=='s': fields[(crate,cur[2],f)]=n
                else: methods[(crate,cur[2])]+=n
                cur=None
            elif cur[0]=='s' and re.match(r'^'+cur[1]+r'    (pub(\([^)]*\))? )?[a-z_]\w*:',l): n+=1
            elif cur[0]=='i' and re.match(r'^'+cur[1]+r'    (pub(\([^)]*\))? )?(const |async |unsafe )*fn ',l): n+=1
for k,v in sorted(fields.items(),key=lambda x:-x[1]):
    if v>15: print('fields',v,k)
for k,v in methods.most_common():
    if v>30: print('methods',v,k)
